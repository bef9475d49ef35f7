package dev.pgleader.example.service.local;

import dev.pgleader.example.service.ServiceApplication;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.SpringApplication;

/**
 * Starts a PostgreSQL and one instance of the service on it. With {@code SPRING_DATASOURCE_URL} set it starts the instance only,
 * on that database: a second one joins the first.
 */
public final class LocalService {

    private static final String URL_VARIABLE = "SPRING_DATASOURCE_URL";
    private static final String USER = "postgres";

    private LocalService() {}

    /**
     * Runs an instance until its process is told to end.
     *
     * @param args as for {@link ServiceApplication#main}
     * @throws IOException if PostgreSQL doesn't start
     */
    public static void main(String[] args) throws IOException {
        List<String> arguments = new ArrayList<>();
        if (!System.getenv().containsKey(URL_VARIABLE)) {
            EmbeddedPostgres postgres = startPostgres();
            String url = "jdbc:postgresql://localhost:" + postgres.getPort() + "/postgres";
            arguments.add("--spring.datasource.url=" + url);
            arguments.add("--spring.datasource.username=" + USER);
            // This PostgreSQL is new: nobody can have led on it before.
            arguments.add("--pgleader.takeover-delay=none");
            System.out.println("For a second instance, in another terminal: " + URL_VARIABLE + "=" + url
                    + " SPRING_DATASOURCE_USERNAME=" + USER
                    + " SERVER_PORT=8090 MANAGEMENT_SERVER_PORT=8091 mvn -q -Pservice");
        }
        arguments.addAll(List.of(args));
        SpringApplication.run(ServiceApplication.class, arguments.toArray(String[]::new));
    }

    private static EmbeddedPostgres startPostgres() throws IOException {
        EmbeddedPostgres postgres =
                EmbeddedPostgres.builder().setRegisterShutdownHook(false).start();
        // Spring's hook: what it runs comes after the service has stopped, which needs its database to the end.
        SpringApplication.getShutdownHandlers().add(() -> {
            try {
                postgres.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        return postgres;
    }
}
