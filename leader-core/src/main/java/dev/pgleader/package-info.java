/**
 * Leader election for the instances of a service, on the PostgreSQL database that they share.
 *
 * <h2>What is promised</h2>
 *
 * <ul>
 *   <li><b>A new leader in bounded time.</b> If the leader gives up in order, within milliseconds; if its process dies or its
 *       session is ended, within one {@code retryInterval} with its jitter; if it falls silent or the server restarts, within
 *       {@code leaseDuration} more. Round trips come on top.
 *   <li><b>At most one leader.</b> Wherever a lock becomes free because its lease ran out or its leader released it, at no
 *       moment do two instances with the same key and database both have {@link
 *       dev.pgleader.LeaderElector#isLeader()} true. A leader trusts itself until {@code start of its last good check +
 *       trustWindow}, by the monotonic clock or by the wall clock, whichever is first; the server ends its session, and so
 *       frees the lock, when it has been silent for {@code leaseDuration}, counted from the end of that check; and {@code
 *       trustWindow < leaseDuration}.
 *   <li><b>The campaign never ends by itself.</b> Whatever the fault, an elector that is started competes again when the
 *       database can be reached and trusted. And from a call of {@code stop()} or {@code close()} on, no term begins.
 * </ul>
 *
 * <h2>What it rests on</h2>
 *
 * <ul>
 *   <li>Within a lease, the clocks of the leader's machine and of the server differ by less than the safety margin.
 *   <li>The server's wall clock isn't stepped: PostgreSQL measures silence by it. A step forward can end a silent leader's session
 *       early, a step back keeps its lock for longer.
 *   <li>The server enforces {@code idle_session_timeout}.
 *   <li>There is one primary: a former one that goes on to take writes beside the new one has locks of its own, and can have
 *       a leader of its own.
 *   <li>Nobody has replaced PostgreSQL's lock functions, which takes a superuser.
 *   <li>A server that restarts or fails over forgets all locks. That is what {@link dev.pgleader.TakeoverDelay} is for: by
 *       default a lease passes before anybody leads on a server that was started anew, or isn't the one that was seen before.
 * </ul>
 *
 * <p>What is left is a lock that the server frees while its lease still runs, since the leader's connection ends: its session is
 * terminated or its locks are unlocked by hand, the network resets the connection, or a standby is promoted that this process
 * never saw before. A leader that runs hears of it from its socket within milliseconds; one that is stopped or cut off at that
 * moment may trust itself for the rest of its trust window, and a candidate that tries in that time gets the lock. Where that
 * matters, set {@link dev.pgleader.TakeoverDelay#of} to the lease duration: then a lease passes before each term, also after a
 * release in order.
 *
 * <p>A suspended machine is no exception: its wall clock runs on, so the lease is over when it wakes. A hypervisor that stops all clocks
 * of a guest can't be seen from inside.
 *
 * <p>Notifications between instances are hints. They can be lost, late or forged; who leads is read from {@code pg_locks}.
 *
 * <h2>What isn't promised</h2>
 *
 * <b>There is no fencing token.</b> {@code isLeader()} speaks of the moment in which it answers. Work that began under a term
 * isn't stopped by its end: a process that is paused between the question and the deed does the deed after another leader has
 * been elected. So leadership is for work that may, rarely, be done twice or be cut off: caches to warm, reports to send, jobs
 * that can be repeated. Work that changes only the database is safe without exception if it runs inside a transaction lock,
 * see {@link dev.pgleader.lock.AdvisoryLocks}.
 */
package dev.pgleader;
