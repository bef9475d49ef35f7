package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.Connection;
import java.sql.Statement;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SessionChangesTest {

    @DisplayName("N05: what stays with a session is recognised")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "set statement_timeout = 1",
                "SET SESSION search_path = a",
                " /* why */ -- so\n set role other",
                "begin; set statement_timeout = 1",
                "select set_config('app.tenant', ?, false)",
                "select pg_catalog.set_config ( 'app.tenant', 'a', ? )",
                "do $$ begin perform set_config('app.tenant', '1', false); end $$",
                "set session characteristics as transaction isolation level serializable, read only",
                "LISTEN jobs",
                "reset all",
                "discard all",
                "select pg_advisory_lock(1)",
                "select pg_try_advisory_lock_shared(1)"
            })
    void change(String sql) throws Exception {
        assertThat(isChange(sql)).isTrue();
    }

    @DisplayName("N05: what ends with a transaction or a statement costs no connection")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "update t set n = 1",
                "update t\nset n = 1",
                "set local statement_timeout = 1",
                "set transaction read only",
                "set session characteristics as transaction isolation level read committed",
                "set constraints all deferred",
                "select set_config('app.tenant', ?, true)",
                "select pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2), pg_advisory_unlock(3)",
                "select current_setting('listen'), settings from offset_table",
                "notify jobs"
            })
    void noChange(String sql) throws Exception {
        assertThat(isChange(sql)).isFalse();
    }

    @Test
    void settersOfJdbcAreChangesToo() throws Exception {
        assertThat(SessionChanges.isMadeBy(
                        Connection.class.getMethod("setSchema", String.class), new Object[] {"other"}))
                .isTrue();
        assertThat(SessionChanges.isMadeBy(
                        Connection.class.getMethod("nativeSQL", String.class), new Object[] {"set a"}))
                .isFalse();
        assertThat(SessionChanges.isMadeBy(Connection.class.getMethod("createStatement"), null))
                .isFalse();
    }

    private static boolean isChange(String sql) throws Exception {
        boolean executed =
                SessionChanges.isMadeBy(Statement.class.getMethod("execute", String.class), new Object[] {sql});
        assertThat(SessionChanges.isMadeBy(
                        Connection.class.getMethod("prepareStatement", String.class), new Object[] {sql}))
                .isEqualTo(executed);
        return executed;
    }
}
