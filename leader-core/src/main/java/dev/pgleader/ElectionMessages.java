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
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What this instance and the others tell each other, and who leads as far as {@code pg_locks} showed. A notice is a hint: it may
 * get lost, come late or be forged, so all that follows from it is a look at what the server says. Of the election thread.
 */
final class ElectionMessages {

    /** How many requests to resign may wait for a look at who sent them. */
    private static final int MOST_REQUESTS = 100;

    private final String instanceId;
    private final long retryNanos;
    private final boolean resignsOnRequest;

    /** What is to be told, and until when it's worth telling. */
    private final Map<Notice, Long> outbox = new LinkedHashMap<>();

    private final Map<LockKey, List<Consumer<Boolean>>> requests = new LinkedHashMap<>();
    private final Map<LockKey, LeaderInfo> leaders = new HashMap<>();
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

    /** A lock is free. */
    void tellFree(LockKey key, long now) {
        outbox.put(new Notice.Released(key), now + retryNanos);
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
        requestedBy.clear();
        answerRequests(false);
    }

    // ---- who leads

    /** This instance leads. */
    LeaderInfo leads(LockKey key, int backendPid, Instant since) {
        LeaderInfo self = new LeaderInfo(instanceId, backendPid, Optional.of(since));
        leaders.put(key, self);
        return self;
    }

    /** The server shows that somebody else holds the lock; returns who leads, then. */
    LeaderInfo saw(LockKey key, Holder holder) {
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
    void took(LockKey key) {
        // What it still had to say of the time before isn't true any more.
        outbox.keySet().removeIf(notice -> notice.key().equals(key));
    }

    /** The term that this instance led is over. */
    void noLongerLeads(LockKey key) {
        leaders.remove(key);
    }

    // ---- what this instance hears

    /** Takes in what others say; returns whether one of the keys that this instance competes for is said to be free. */
    boolean receive(List<Notification> notifications, Set<LockKey> competing) {
        boolean someFree = false;
        for (Notification notification : notifications) {
            Notice notice = Notice.parse(notification.payload()).orElse(null);
            if (notice instanceof Notice.Released) {
                someFree |= competing.contains(notice.key());
            } else if (notice instanceof Notice.ResignRequest) {
                requested(notice.key(), notification.senderPid());
            }
        }
        return someFree;
    }

    private void requested(LockKey key, int senderPid) {
        if (resignsOnRequest && requestedBy.size() < MOST_REQUESTS) {
            requestedBy.computeIfAbsent(senderPid, each -> new HashSet<>()).add(key);
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
