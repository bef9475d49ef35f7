/**
 * A service to copy: orders are taken by every instance, and what may happen only once is done by one. It shows four ways to
 * that, and when each fits.
 *
 * <ul>
 *   <li>{@code NightlyReminders}: a scheduled method that runs on the leader. For work that starts now and then.
 *   <li>{@code OutboxRelay}: a loop that runs for as long as this instance leads. For work that never ends.
 *   <li>{@code DailyTotals}: a job in a transaction lock, which needs no leader. For work that only writes to the database.
 *   <li>{@code Schema}: the same lock, waited for. For what each instance needs before it starts.
 * </ul>
 */
@org.jspecify.annotations.NullMarked
package dev.pgleader.example.service;
