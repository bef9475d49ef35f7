/** The meters of an election. Needs {@code micrometer-core}, which the rest of the module doesn't. */
package dev.pgleader.micrometer;
