/** Runs the service on a machine that has a JDK and nothing else. Not to be copied. */
@org.jspecify.annotations.NullMarked
package dev.pgleader.example.service.local;
