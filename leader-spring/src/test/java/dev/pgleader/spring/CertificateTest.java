package dev.pgleader.spring;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.LeaderElector;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.util.Base64;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** A pool that trusts one certificate, at a server with that one or another one. */
class CertificateTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String PASSWORD = "changeit";

    /** A self-signed certificate and its key, as the PEM files {@code name.crt} and {@code name.key}. */
    private static void createCertificate(Path directory, String name) throws Exception {
        Path store = directory.resolve(name + ".p12");
        String keytool =
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process made = new ProcessBuilder((keytool
                                + " -genkeypair -alias it -keyalg EC -dname CN=localhost -ext SAN=dns:localhost -validity 30"
                                + " -storetype PKCS12 -storepass " + PASSWORD + " -keystore " + store)
                        .split(" "))
                .redirectErrorStream(true)
                .start();
        String said = new String(made.getInputStream().readAllBytes(), US_ASCII);
        assertThat(made.waitFor()).as(said).isZero();
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream content = Files.newInputStream(store)) {
            keys.load(content, PASSWORD.toCharArray());
        }
        write(
                directory.resolve(name + ".crt"),
                "CERTIFICATE",
                keys.getCertificate("it").getEncoded());
        Path key = directory.resolve(name + ".key");
        write(key, "PRIVATE KEY", keys.getKey("it", PASSWORD.toCharArray()).getEncoded());
        Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-------"));
    }

    private static void write(Path file, String label, byte[] content) throws IOException {
        String body = Base64.getMimeEncoder(64, "\n".getBytes(US_ASCII)).encodeToString(content);
        Files.writeString(file, "-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n");
    }

    /** Has the server write down who logs in. */
    private static void recordLogins(EmbeddedPostgres server) throws Exception {
        try (Connection connection = server.getPostgresDatabase().getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE ROLE app LOGIN; CREATE TABLE logins (who text); GRANT ALL ON logins TO app;"
                    + " CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS"
                    + " 'BEGIN INSERT INTO public.logins VALUES (session_user); END';"
                    + " CREATE EVENT TRIGGER note ON login EXECUTE FUNCTION note()");
        }
    }

    private static int logins(EmbeddedPostgres server) throws Exception {
        try (Connection connection = server.getPostgresDatabase().getConnection();
                Statement statement = connection.createStatement();
                ResultSet count = statement.executeQuery("SELECT count(*) FROM logins WHERE who = 'app'")) {
            count.next();
            return count.getInt(1);
        }
    }

    @Test
    @DisplayName(
            "N09: at a server whose certificate the pool refuses, the elector never logs in; it does where the pool does")
    void theElectorTrustsWhomThePoolTrusts(@TempDir Path directory) throws Exception {
        createCertificate(directory, "server");
        createCertificate(directory, "other");
        try (EmbeddedPostgres server = EmbeddedPostgres.builder()
                .setServerConfig("ssl", "on")
                .setServerConfig(
                        "ssl_cert_file", directory.resolve("server.crt").toString())
                .setServerConfig("ssl_key_file", directory.resolve("server.key").toString())
                .start()) {
            recordLogins(server);
            ApplicationContextRunner application = new ApplicationContextRunner()
                    .withConfiguration(
                            AutoConfigurations.of(DataSourceAutoConfiguration.class, LeaderAutoConfiguration.class))
                    .withPropertyValues(
                            "pgleader.key=certificates",
                            "pgleader.takeover-delay=none",
                            "spring.datasource.url=jdbc:postgresql://localhost:" + server.getPort() + "/postgres",
                            "spring.datasource.username=app",
                            "spring.datasource.hikari.minimum-idle=0",
                            "spring.datasource.hikari.connection-timeout=1000",
                            "spring.datasource.hikari.data-source-properties.sslmode=verify-full");
            String trusted = "spring.datasource.hikari.data-source-properties.sslrootcert=" + directory;
            application.withPropertyValues(trusted + "/other.crt").run(context -> {
                LeaderElector elector = context.getBean(LeaderElector.class);
                await().atMost(PATIENCE).until(() -> elector.status().problem().isPresent());
                assertThat(elector.status().problem().orElseThrow().message()).contains("SSL error");
                assertThat(catchThrowable(context.getBean(HikariDataSource.class)::getConnection))
                        .isNotNull();
                assertThat(elector.isLeader()).isFalse();
            });
            assertThat(logins(server)).isZero();
            application.withPropertyValues(trusted + "/server.crt").run(context -> {
                LeaderElector elector = context.getBean(LeaderElector.class);
                await().atMost(PATIENCE).until(elector::isLeader);
            });
            assertThat(logins(server)).isPositive();
        }
    }
}
