package dev.pgleader.example.service.local;

import dev.pgleader.example.service.ServiceApplication;
import java.io.IOException;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.core.env.Environment;

/**
 * Starts one instance of the service, and a PostgreSQL for it and all others if none runs yet. With {@code SPRING_DATASOURCE_URL}
 * set it starts the instance only, on that database.
 */
public final class LocalService {

    private static final String URL_VARIABLE = "SPRING_DATASOURCE_URL";

    /** Below the working directory: each copy of the project has a database of its own. */
    private static final Path HOME = Path.of("target", "service-database");

    private LocalService() {}

    /**
     * Runs an instance until its process is told to end.
     *
     * @param args as for {@link ServiceApplication#main}
     * @throws IOException if PostgreSQL doesn't start
     * @throws SQLException if PostgreSQL can't be reached
     */
    public static void main(String[] args) throws IOException, SQLException {
        List<String> arguments = new ArrayList<>();
        String database = "";
        if (!System.getenv().containsKey(URL_VARIABLE)) {
            LocalDatabase local = LocalDatabase.join(HOME, LocalDatabase.PATIENCE);
            arguments.add("--spring.datasource.url=" + LocalDatabase.url(local.port()));
            arguments.add("--spring.datasource.username=" + LocalDatabase.USER);
            if (local.isNew()) {
                // Nobody can have led on it before.
                arguments.add("--pgleader.takeover-delay=none");
            }
            database = "PostgreSQL is a process of its own and outlives the instances. It ends "
                    + LocalDatabase.PATIENCE.toSeconds() + " s after the last of them, or by: kill " + local.pid();
        }
        arguments.addAll(List.of(args));
        Environment environment = SpringApplication.run(ServiceApplication.class, arguments.toArray(String[]::new))
                .getEnvironment();
        int port = environment.getRequiredProperty("local.server.port", Integer.class);
        System.out.println("Orders: http://localhost:" + port + "/orders  Who leads: http://localhost:"
                + environment.getRequiredProperty("local.management.port") + "/actuator/leader");
        System.out.println("This instance ends in order by Ctrl-C, and as in a crash by: kill -9 "
                + ProcessHandle.current().pid());
        System.out.println("Another one, in another terminal: mvn -q -Pservice -Dservice.args=\"--server.port="
                + (port + 10) + " --management.server.port=" + (port + 11) + "\"");
        System.out.println(database);
    }
}
