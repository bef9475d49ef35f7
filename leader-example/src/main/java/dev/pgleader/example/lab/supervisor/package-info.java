/**
 * What runs a lab: its server, its nodes and the faults; and what is known of them.
 *
 * <p>{@link dev.pgleader.example.lab.supervisor.Supervisor} is the door. It acts on processes, proxies and server; whatever
 * follows is told to {@code Lab}, which alone holds what is known, on one thread, and writes it to the {@link
 * dev.pgleader.example.lab.supervisor.EventLog}, from which pages read.
 */
package dev.pgleader.example.lab.supervisor;
