package dev.pgleader.example.lab;

import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.supervisor.LabFailure;
import dev.pgleader.example.lab.supervisor.Supervisor;
import java.util.Map;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.server.PortInUseException;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.GenericApplicationContext;

/**
 * Starts the lab: a page that shows elections, and has buttons for the faults. It needs nothing but a JDK, and leaves nothing
 * behind when it is ended, however that happens.
 */
@SpringBootApplication(proxyBeanMethods = false)
public class LabApplication {

    private static final int EXIT_FAILED = 1;
    private static final int EXIT_MISUSED = 2;

    /**
     * Runs the lab until the process is ended.
     *
     * @param args see {@link LabArguments#USAGE}
     */
    public static void main(String[] args) {
        LabArguments arguments;
        try {
            arguments = LabArguments.parse(args);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(EXIT_MISUSED);
            return;
        }
        try {
            ConfigurableApplicationContext context = start(arguments, LabSettings.DEFAULT);
            System.out.println("The lab is at " + address(context) + " (Ctrl-C ends it)");
        } catch (LabFailure e) {
            System.err.println(e.getMessage());
            System.exit(EXIT_FAILED);
        }
    }

    /**
     * Starts a lab, and returns when it runs; closing the context ends it.
     *
     * @throws LabFailure if the lab can't start, with what to do; nothing is left of it then
     */
    static ConfigurableApplicationContext start(LabArguments arguments, LabSettings settings) {
        ConfigurableApplicationContext context = serve(arguments, settings);
        try {
            context.getBean(Supervisor.class).start();
            return context;
        } catch (RuntimeException e) {
            context.close();
            throw e;
        }
    }

    /**
     * Serves the page of a lab that isn't started yet.
     *
     * @throws LabFailure if that can't be done, with what to do
     */
    static ConfigurableApplicationContext serve(LabArguments arguments, LabSettings settings) {
        SpringApplication application = new SpringApplication(LabApplication.class);
        application.setBannerMode(Banner.Mode.OFF);
        application.setLogStartupInfo(false);
        application.setDefaultProperties(
                Map.of("spring.config.name", "lab", "server.port", Integer.toString(arguments.port())));
        application.addInitializers((GenericApplicationContext context) -> context.registerBean(
                Supervisor.class, () -> new Supervisor(settings, arguments.nodes(), arguments.heapMebibytes())));
        try {
            return application.run();
        } catch (RuntimeException e) {
            throw cannotStart(e, arguments);
        }
    }

    /** Where the page of a started lab is. */
    static String address(ConfigurableApplicationContext context) {
        return "http://127.0.0.1:" + context.getEnvironment().getRequiredProperty("local.server.port");
    }

    private static LabFailure cannotStart(RuntimeException failure, LabArguments arguments) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof PortInUseException) {
                return new LabFailure(
                        "The port " + arguments.port() + " is taken; choose another one with --port", failure);
            }
            if (cause instanceof LabFailure known) {
                return known;
            }
        }
        return new LabFailure("The lab doesn't start: " + failure, failure);
    }
}
