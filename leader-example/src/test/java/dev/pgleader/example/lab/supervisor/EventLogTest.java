package dev.pgleader.example.lab.supervisor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.example.lab.supervisor.LabEvent.LabStarted;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Trouble;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class EventLogTest {

    private static final LabStarted START = new LabStarted(5_000, 500, 1_000, "POLL", 5432, 9);

    private final EventLog log = new EventLog(3);

    @Test
    void tellsAllThatIsKeptAndThenWhatHappens() throws InterruptedException {
        log.add(1, START);
        log.add(2, new Trouble("a"));
        try (EventLog.Subscription subscription = log.subscribe(0)) {
            log.add(3, new Trouble("b"));
            log.tell(4, new Trouble("not kept"));
            assertThat(read(subscription))
                    .extracting(EventLog.Entry::event)
                    .containsExactly(START, new Trouble("a"), new Trouble("b"), new Trouble("not kept"));
        }
        assertThat(known(0)).containsExactly(START, new Trouble("a"), new Trouble("b"));
    }

    @Test
    void goesOnWhereAListenerWas() throws InterruptedException {
        log.add(1, START);
        log.add(2, new Trouble("a"));
        long id = lastId();
        log.add(3, new Trouble("b"));
        assertThat(known(id)).containsExactly(new Trouble("b"));
        assertThat(known(lastId())).isEmpty();
    }

    @Test
    void beginsAnewForAListenerOfAnotherTime() throws InterruptedException {
        log.add(1, START);
        log.add(2, new Trouble("a"));
        long id = lastId();
        log.add(3, START);
        assertThat(known(id)).as("of an earlier lab").containsExactly(START);
        assertThat(known(lastId() + 10)).as("of an earlier supervisor").containsExactly(START);
    }

    @Test
    void keepsTheLastWordOnEachLane() throws InterruptedException {
        log.add(1, START);
        log.add(2, node("A", NodeState.STARTING));
        log.add(3, node("A", NodeState.LEADER));
        log.add(4, node("B", NodeState.FOLLOWER));
        for (int i = 0; i < 3; i++) {
            log.add(5, new Trouble("more"));
        }
        assertThat(known(0))
                .containsExactly(
                        START,
                        node("A", NodeState.LEADER),
                        node("B", NodeState.FOLLOWER),
                        new Trouble("more"),
                        new Trouble("more"),
                        new Trouble("more"));
    }

    @Test
    void leavesOneWhoDoesNotListenBehind() throws InterruptedException {
        log.add(1, START);
        try (EventLog.Subscription slow = log.subscribe(0)) {
            for (int i = 0; i < 20_000; i++) {
                log.add(2, new Trouble("more"));
            }
            assertThat(slow.isOverrun()).isTrue();
        }
    }

    private static NodeChanged node(String name, NodeState state) {
        return new NodeChanged(name, state, false, 0, 1, false, false, "");
    }

    private long lastId() throws InterruptedException {
        try (EventLog.Subscription subscription = log.subscribe(0)) {
            List<EventLog.Entry> entries = read(subscription);
            return entries.get(entries.size() - 1).id();
        }
    }

    private List<LabEvent> known(long afterId) throws InterruptedException {
        try (EventLog.Subscription subscription = log.subscribe(afterId)) {
            return read(subscription).stream().map(EventLog.Entry::event).toList();
        }
    }

    private static List<EventLog.Entry> read(EventLog.Subscription subscription) throws InterruptedException {
        List<EventLog.Entry> entries = new ArrayList<>();
        for (EventLog.Entry entry = subscription.next(0); entry != null; entry = subscription.next(0)) {
            entries.add(entry);
        }
        return entries;
    }
}
