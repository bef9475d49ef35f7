package dev.pgleader.example.service;

import dev.pgleader.LeaderElector;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;

/** An instance of the service in this JVM, as its main method starts it. */
final class RunningService implements AutoCloseable {

    private static final HttpClient CLIENT = HttpClient.newHttpClient();
    private static final List<String> QUIET = List.of("--logging.level.root=warn", "--logging.level.dev.pgleader=warn");

    private final ConfigurableApplicationContext context;

    RunningService(ServiceDatabase database, String... more) {
        SpringApplication application = new SpringApplication(ServiceApplication.class);
        application.setRegisterShutdownHook(false);
        application.setBannerMode(Banner.Mode.OFF);
        context = application.run(Stream.of(database.arguments(), QUIET, List.of(more))
                .flatMap(List::stream)
                .toArray(String[]::new));
    }

    <T> T bean(Class<T> type) {
        return context.getBean(type);
    }

    LeaderElector elector() {
        return bean(LeaderElector.class);
    }

    String instance() {
        return elector().instanceId();
    }

    String property(String name) {
        return context.getEnvironment().getRequiredProperty(name);
    }

    /** From the port that customers reach. */
    HttpResponse<String> get(String path) {
        return send(HttpRequest.newBuilder(uri("local.server.port", path)));
    }

    /** From the port that they don't. */
    HttpResponse<String> getManagement(String path) {
        return send(HttpRequest.newBuilder(uri("local.management.port", path)));
    }

    HttpResponse<String> post(String path, String json) {
        return send(HttpRequest.newBuilder(uri("local.server.port", path))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(json)));
    }

    void placeOrder() {
        HttpResponse<String> response = post("/orders", "{\"customer\": \"Ada\", \"amount\": 12.50}");
        if (response.statusCode() != 201) {
            throw new IllegalStateException(response.statusCode() + " " + response.body());
        }
    }

    /** What Prometheus would see. */
    String metrics() {
        return getManagement("/actuator/prometheus").body();
    }

    /** How often a scheduled method was called, whatever it did then. */
    double scheduledCalls(String method) {
        Pattern count = Pattern.compile("(?m)^tasks_scheduled_execution_seconds_count\\{[^}]*code_function=\"" + method
                + "\"[^}]*} ([0-9.E]+)$");
        Matcher found = count.matcher(metrics());
        double calls = 0;
        while (found.find()) {
            calls += Double.parseDouble(found.group(1));
        }
        return calls;
    }

    private URI uri(String portProperty, String path) {
        return URI.create("http://localhost:" + property(portProperty) + path);
    }

    private static HttpResponse<String> send(HttpRequest.Builder request) {
        try {
            return CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void close() {
        context.close();
    }
}
