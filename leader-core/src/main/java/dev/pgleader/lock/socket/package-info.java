/**
 * The socket under a lock session: one on which the election thread can wait for the server, for a deadline and for a
 * command at the same time. Not exported: only the driver, which makes the sockets, sees it from outside.
 */
package dev.pgleader.lock.socket;
