package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** R21: an observer that hung had 86,402 events queued after a simulated day. */
class ObserverQueueTest {

    private final HandDrivenExecutor executor = new HandDrivenExecutor();
    private final List<String> heard = new ArrayList<>();
    private final ElectionObserver observer = new ElectionObserver() {
        @Override
        public void checked(Duration took) {
            heard.add("checked");
        }

        @Override
        public void eventsLost(int count) {
            heard.add("lost " + count);
        }

        @Override
        public void closed() {
            heard.add("closed");
        }
    };

    private static void check(ElectionObserver each) {
        each.checked(Duration.ZERO);
    }

    @Test
    void whatAnObserverMissesIsBoundedAndToldWhenItListensAgain() {
        ObserverQueue queue = new ObserverQueue("test", executor);
        queue.add(observer);
        for (int i = 0; i < 86_402; i++) {
            queue.tell(ObserverQueueTest::check);
        }
        queue.tellClosed();
        executor.runAll();
        assertThat(heard).filteredOn("checked"::equals).hasSize(ObserverQueue.CAPACITY);
        assertThat(heard)
                .containsOnlyOnce("lost " + (86_402 - ObserverQueue.CAPACITY))
                .endsWith("closed");
        heard.clear();
        queue.tell(ObserverQueueTest::check);
        executor.runAll();
        assertThat(heard).containsExactly("checked");
    }

    @Test
    void withoutObserversNothingIsQueued() {
        ObserverQueue queue = new ObserverQueue("test", executor);
        queue.tell(ObserverQueueTest::check);
        assertThat(executor.isIdle()).isTrue();
    }

    /** R16: no thread for a moment. */
    @Test
    void eventsWaitForAThreadInOrder() {
        boolean[] refuse = {true};
        ObserverQueue queue = new ObserverQueue("test", task -> {
            if (refuse[0]) {
                throw new OutOfMemoryError("scripted: unable to create native thread");
            }
            executor.execute(task);
        });
        queue.add(observer);
        queue.tell(ObserverQueueTest::check);
        queue.tellClosed();
        assertThat(queue.retry()).isFalse();
        refuse[0] = false;
        assertThat(queue.retry()).isTrue();
        executor.runAll();
        assertThat(heard).containsExactly("checked", "closed");
    }

    @Test
    void anObserverThatThrowsDoesNotDeafenTheOthers() {
        ObserverQueue queue = new ObserverQueue("test", executor);
        queue.add(new ElectionObserver() {
            @Override
            public void checked(Duration took) {
                throw new Unspeakable();
            }
        });
        queue.add(observer);
        queue.tell(ObserverQueueTest::check);
        executor.runAll();
        assertThat(heard).containsExactly("checked");
    }
}
