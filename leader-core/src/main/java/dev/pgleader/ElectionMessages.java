package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSessionException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What this instance and the others tell each other, and who leads as far as {@code pg_locks} showed. A notice is a hint: it may
 * get lost, come late or be forged. Only the server says who holds a lock, and which backend sent a notice; so a release is believed
 * only from the backend that was seen to hold the lock. Of the election thread.
 */
final class ElectionMessages {

    /** How many requests to resign may wait for a look at who sent them. */
    private static final int MOST_REQUESTS = 100;

    /**
     * What notices said about keys that this instance competes for.
     *
     * @param look the keys that somebody says are free
     * @param vouched those of them whose leader, seen in {@code pg_locks}, said so itself
     */
    record Heard(Set<LockKey> look, Set<LockKey> vouched) {}

    private final String instanceId;
    private final long retryNanos;
    private final boolean resignsOnRequest;

    /** What is to be told, and until when it's worth telling. */
    private final Map<Notice, Long> outbox = new LinkedHashMap<>();

    private final Map<LockKey, List<Consumer<Boolean>>> requests = new LinkedHashMap<>();
    private final Map<LockKey, LeaderInfo> leaders = new HashMap<>();
    /** The backends of this instance's own role that were seen to hold a lock: only such a one can vouch for its release. */
    private final Map<LockKey, Integer> trustedHolders = new HashMap<>();

    private final Map<LockKey, Long> vouchedUntil = new HashMap<>();
    /** Until when a notice that comes after the grant may still vouch for the former leader. */
    private final Map<LockKey, Long> vouchableUntil = new HashMap<>();

    private final Map<Integer, Set<LockKey>> requestedBy = new LinkedHashMap<>();
    private long nextTellAt;
    private long nextRequestLookAt;

    ElectionMessages(String instanceId, ElectorOptions options, long now) {
        this.instanceId = instanceId;
        this.retryNanos = options.retryInterval().toNanos();
        this.resignsOnRequest = options.remoteResignation();
        this.nextTellAt = now;
        this.nextRequestLookAt = now;
    }

    // ---- what this instance tells

    /** A lock was released. */
    void tell(Notice notice, long now) {
        outbox.put(notice, now + retryNanos);
        nextTellAt = now;
    }

    /** Asks whoever leads to resign; the consumer hears whether that was sent. */
    void requestResignation(LockKey key, Consumer<Boolean> sent) {
        requests.computeIfAbsent(key, each -> new ArrayList<>()).add(sent);
    }

    /** Whether there is something to tell now. */
    boolean isTellingDue(long now) {
        return !requests.isEmpty() || (!outbox.isEmpty() && now - nextTellAt >= 0);
    }

    /** When there is something to tell next; null if there is nothing. */
    @Nullable
    Long tellingDueAt(long now) {
        return requests.isEmpty() ? outbox.isEmpty() ? null : (Long) nextTellAt : (Long) now;
    }

    /** Tells what is due. Whatever the server refuses is tried again for a while: the others find out by themselves, too. */
    void tell(LockSession session, long now) throws LockSessionException {
        outbox.values().removeIf(until -> now - until >= 0);
        List<String> payloads = new ArrayList<>();
        outbox.keySet().forEach(notice -> payloads.add(notice.toString()));
        requests.keySet().forEach(key -> payloads.add(new Notice.ResignRequest(key).toString()));
        boolean told = false;
        try {
            told = payloads.isEmpty() || session.tell(payloads);
        } finally {
            answerRequests(told);
        }
        if (told) {
            outbox.clear();
        } else {
            nextTellAt = now + retryNanos / 4;
        }
    }

    private void answerRequests(boolean sent) {
        List<Consumer<Boolean>> answered =
                requests.values().stream().flatMap(Collection::stream).toList();
        requests.clear();
        answered.forEach(each -> each.accept(sent));
    }

    /** The session is gone: what it was to tell isn't told by another one, and what it saw may have changed. */
    void forget() {
        outbox.clear();
        leaders.clear();
        trustedHolders.clear();
        vouchedUntil.clear();
        vouchableUntil.clear();
        requestedBy.clear();
        answerRequests(false);
    }

    // ---- who leads

    /** This instance leads. */
    LeaderInfo leads(LockKey key, int backendPid, Instant since) {
        LeaderInfo self = new LeaderInfo(instanceId, backendPid, Optional.of(since));
        leaders.put(key, self);
        vouchableUntil.remove(key);
        return self;
    }

    /** The server shows that somebody else holds the lock; returns who leads, then. */
    LeaderInfo saw(LockKey key, Holder holder) {
        vouchedUntil.remove(key);
        if (holder.isOfSameRole()) {
            trustedHolders.put(key, holder.backendPid());
        } else {
            trustedHolders.remove(key);
        }
        LeaderInfo known = leaders.get(key);
        if (known != null && known.backendPid() == holder.backendPid()) {
            return known;
        }
        // Who takes over before the eyes of this instance has led for a retry interval at the most.
        Optional<Instant> since = known == null ? Optional.empty() : Optional.of(Instant.now());
        LeaderInfo leader = new LeaderInfo(holder.instanceId(), holder.backendPid(), since);
        leaders.put(key, leader);
        return leader;
    }

    /** This instance got the lock. */
    void took(LockKey key, long now) {
        // What it still had to say of the time before isn't true any more.
        outbox.keySet().removeIf(notice -> notice.key().equals(key));
        vouchableUntil.put(key, now + retryNanos);
    }

    /** The term that this instance led is over. */
    void noLongerLeads(LockKey key) {
        leaders.remove(key);
        trustedHolders.remove(key);
    }

    /** Whether the former leader of a lock that was just granted has released it in order, with nobody leading in between. */
    boolean isVouched(LockKey key, long now) {
        Long until = vouchedUntil.get(key);
        return until != null && until - now > 0;
    }

    // ---- what this instance hears

    /** @param competing the keys that this instance competes for now: of others it may have missed a leader in between */
    Heard receive(List<Notification> notifications, Set<LockKey> competing, long now) {
        Heard heard = new Heard(new HashSet<>(), new HashSet<>());
        for (Notification notification : notifications) {
            Notice.parse(notification.payload())
                    .ifPresent(notice -> receive(notice, notification.senderPid(), competing, now, heard));
        }
        return heard;
    }

    private void receive(Notice notice, int senderPid, Set<LockKey> competing, long now, Heard heard) {
        LockKey key = notice.key();
        if (notice instanceof Notice.ResignRequest) {
            if (resignsOnRequest && requestedBy.size() < MOST_REQUESTS) {
                requestedBy.computeIfAbsent(senderPid, each -> new HashSet<>()).add(key);
            }
            return;
        }
        // A stranger that took the key says nothing about the leader before it.
        boolean fromLeader = Objects.equals(trustedHolders.get(key), senderPid);
        boolean competes = competing.contains(key);
        if (competes) {
            heard.look().add(key);
        }
        boolean justTook = vouchableUntil.getOrDefault(key, now) - now > 0;
        if (fromLeader && notice instanceof Notice.Released && (competes || justTook)) {
            heard.vouched().add(key);
            vouchedUntil.put(key, now + retryNanos);
        }
    }

    /** The backends that asked for a resignation of one of {@code led}, and haven't been looked at; none if it's too early. */
    Set<Integer> requestersToLookAt(Set<LockKey> led, long now) {
        requestedBy.values().forEach(keys -> keys.retainAll(led));
        requestedBy.values().removeIf(Set::isEmpty);
        if (requestedBy.isEmpty() || now - nextRequestLookAt < 0) {
            return Set.of();
        }
        nextRequestLookAt = now + retryNanos;
        return Set.copyOf(requestedBy.keySet());
    }

    /** Whether requests wait, and until when; null if none do. */
    @Nullable
    Long requestLookDueAt() {
        return requestedBy.isEmpty() ? null : (Long) nextRequestLookAt;
    }

    /** The keys to resign, since one of {@code commanders} asked for it. All requests are done with then. */
    Set<LockKey> requestedBy(Set<Integer> commanders) {
        Set<LockKey> requested = new HashSet<>();
        commanders.forEach(pid -> requested.addAll(requestedBy.getOrDefault(pid, Set.of())));
        requestedBy.clear();
        return requested;
    }
}
