package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.FieldSource;
import org.junit.jupiter.params.provider.ValueSource;

class NoticeTest {

    static final List<Notice> NOTICES = List.of(
            new Notice.Released(LockKey.of(Long.MIN_VALUE)),
            new Notice.Released(LockKey.of(4, -2)),
            new Notice.ResignRequest(LockKey.named("billing/nightly-run")));

    @ParameterizedTest
    @FieldSource("NOTICES")
    void isReadAsItWasWritten(Notice notice) {
        assertThat(Notice.parse(notice.toString())).contains(notice);
    }

    /** A change would make two versions of the library deaf to each other in a rolling upgrade. */
    @Test
    void theWordsArePinned() {
        LockKey key = LockKey.of(42);
        assertThat(new Notice.Released(key)).hasToString("released bigint:42");
        assertThat(new Notice.ResignRequest(key)).hasToString("resign bigint:42");
    }

    /** R05: what anybody may send is read as strictly as it is written; what an earlier version sent is gone. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                " ",
                "resign",
                "resign ",
                "resign 42",
                "resign bigint:",
                "resign bigint:4x2",
                "resign bigint:042",
                "resign bigint:+42",
                "resign bigint:42 ",
                "resign  bigint:42",
                "resign bigint:42\n",
                "resign bigint:42\nreleased bigint:42",
                "resign bigint:42 because of the deployment at noon",
                "resign bigint:9223372036854775808",
                "resign int4:1",
                "RESIGN bigint:42",
                " resign bigint:42",
                "abdicate bigint:42",
                "who bigint:42",
                "elected bigint:42 4711 2026-01-02T03:04:05Z host",
                "{\"event\": \"something of another program\"}"
            })
    void anythingElseIsIgnored(String payload) {
        assertThat(Notice.parse(payload)).isEmpty();
    }
}
