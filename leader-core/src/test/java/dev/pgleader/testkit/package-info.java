/**
 * Real servers, networks and processes that a test may treat roughly.
 *
 * <p>{@link dev.pgleader.testkit.PostgresServer} is a PostgreSQL of the test's own,
 * {@link dev.pgleader.testkit.PgBouncer} a pooler before it and {@link dev.pgleader.testkit.TcpProxy} a network that
 * breaks on demand. {@link dev.pgleader.testkit.JavaProcess} is another JVM to pause or to kill.
 * {@link dev.pgleader.testkit.LockTable} and {@link dev.pgleader.testkit.LogCapture} observe what came of it.
 * Everything ends with the JVM that started it, even when that JVM is killed. Needs Linux with {@code sh}, and
 * {@code setpriv} where the tests run as root.
 */
@NullMarked
package dev.pgleader.testkit;

import org.jspecify.annotations.NullMarked;
