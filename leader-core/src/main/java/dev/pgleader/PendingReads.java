package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession.Holder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What callers want to know from the database: whether a candidate still leads, and who holds a lock. However many ask, one check
 * and one look answer all that wait. Of the election thread.
 */
final class PendingReads {

    private record Verification(Candidate candidate, CompletableFuture<Boolean> answer) {}

    private record Question(Candidate candidate, CompletableFuture<Optional<LeaderInfo>> answer) {}

    private List<Verification> verifications = new ArrayList<>();
    private Map<LockKey, List<Question>> questions = new LinkedHashMap<>();

    void verify(Candidate candidate, CompletableFuture<Boolean> answer) {
        verifications.add(new Verification(candidate, answer));
    }

    void findLeader(Candidate candidate, CompletableFuture<Optional<LeaderInfo>> answer) {
        questions.computeIfAbsent(candidate.key, key -> new ArrayList<>()).add(new Question(candidate, answer));
    }

    boolean wantCheck() {
        return !verifications.isEmpty();
    }

    /** A check that began after the calls has succeeded, or there was none to be had. */
    void verified(boolean proved) {
        List<Verification> answered = verifications;
        verifications = new ArrayList<>();
        answered.forEach(each -> each.candidate.futures.complete(each.answer, proved && each.candidate.leads()));
    }

    /** The keys whose holder is asked for. */
    Set<LockKey> keys() {
        return questions.keySet();
    }

    /** Answers all who ask, from what the server shows. */
    void found(Map<LockKey, Holder> holders) {
        take().forEach((key, askers) -> askers.forEach(each -> each.candidate.futures.complete(
                each.answer, Optional.ofNullable(holders.get(key)).map(holder -> info(each.candidate, holder)))));
    }

    private static LeaderInfo info(Candidate candidate, Holder holder) {
        @Nullable LeaderInfo known = candidate.standing().knownLeader();
        return known != null && known.backendPid() == holder.backendPid()
                ? known
                : new LeaderInfo(holder.instanceId(), holder.backendPid(), Optional.empty());
    }

    void failed(Throwable failure) {
        take().values().forEach(askers -> askers.forEach(each -> each.candidate.futures.fail(each.answer, failure)));
    }

    private Map<LockKey, List<Question>> take() {
        Map<LockKey, List<Question>> taken = questions;
        questions = new LinkedHashMap<>();
        return taken;
    }
}
