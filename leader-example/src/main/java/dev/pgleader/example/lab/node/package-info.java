/** A node of the lab: a small service in a JVM of its own, and what it tells its supervisor. */
package dev.pgleader.example.lab.node;
