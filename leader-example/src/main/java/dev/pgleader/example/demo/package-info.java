/** The failover demo. */
package dev.pgleader.example.demo;
