package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.testcontainers.postgresql.PostgreSQLContainer;

@Tag("testcontainers")
class PostgresContainerTest {

    @Test
    void answersAQuery() throws Exception {
        try (PostgreSQLContainer postgres = new PostgreSQLContainer("postgres:18")) {
            postgres.start();
            try (Connection connection = DriverManager.getConnection(
                            postgres.getJdbcUrl(), postgres.getUsername(), postgres.getPassword());
                    Statement statement = connection.createStatement();
                    ResultSet result = statement.executeQuery("select 1")) {
                assertThat(result.next()).isTrue();
                assertThat(result.getInt(1)).isEqualTo(1);
            }
        }
    }
}
