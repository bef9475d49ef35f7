/**
 * The lab: a page on which people see elections happen. {@link dev.pgleader.example.lab.LabApplication} starts it; {@code web}
 * serves the page, {@code supervisor} runs the server and the nodes, and {@code node} is what runs in the JVM of each node.
 * Arrows point in that direction only.
 */
package dev.pgleader.example.lab;
