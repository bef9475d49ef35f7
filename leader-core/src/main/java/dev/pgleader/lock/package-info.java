/**
 * PostgreSQL advisory locks: keys, connections, and sessions that hold locks. Knows nothing of elections, and is useful
 * without one: {@link dev.pgleader.lock.AdvisoryLocks} runs something once, under a lock.
 *
 * <p>A lock that is held by a database session says nothing to anything but that database. Work inside {@link
 * dev.pgleader.lock.AdvisoryLocks#runInTransaction a transaction lock} is safe by construction, since lock and writes end
 * together; work under a session lock isn't stopped by the loss of the lock.
 *
 * <p>All SQL of the library is in this package, and all of it binds its values as parameters.
 */
package dev.pgleader.lock;
