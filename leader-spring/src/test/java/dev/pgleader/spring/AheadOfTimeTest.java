package dev.pgleader.spring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.spring.sample.SampleApplication;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.aot.test.generate.TestGenerationContext;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.annotation.AnnotatedBeanDefinitionReader;
import org.springframework.context.annotation.AnnotationConfigUtils;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.aot.ApplicationContextAotGenerator;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.test.tools.CompileWithForkedClassLoader;
import org.springframework.core.test.tools.TestCompiler;

class AheadOfTimeTest {

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({
        AopAutoConfiguration.class,
        LeaderAutoConfiguration.class,
        LeaderOnlyAutoConfiguration.class,
        LeaderActuatorAutoConfiguration.class
    })
    @Import({DocumentedJobs.class, DocumentedImport.class, DocumentedListener.class, JobBean.class})
    static class Application {}

    @LeaderOnly
    interface Job {
        void work();
    }

    @LeaderOnly
    static class Inherited {
        public void inherited() {}
    }

    static class JobBean extends Inherited implements Job {
        @Override
        public void work() {}
    }

    private static GenericApplicationContext context(String retryInterval) {
        GenericApplicationContext context = new GenericApplicationContext();
        context.getEnvironment()
                .getPropertySources()
                .addFirst(new MapPropertySource(
                        "test",
                        Map.of(
                                "pgleader.key", "orders",
                                "pgleader.elections.billing.key", "orders/billing",
                                "pgleader.retry-interval", retryInterval,
                                // Nobody listens there: this isn't about databases.
                                "pgleader.datasource.url", "jdbc:postgresql://localhost:1/nowhere")));
        return context;
    }

    @Test
    @DisplayName(
            "An application that is built with process-aot, in JVMs of their own, leads and runs its leader-only job")
    void theProcessedApplicationLeads(@TempDir Path directory) throws Exception {
        Path sources = directory.resolve("sources");
        Path classes = directory.resolve("classes");
        String[] configuration = {
            "--spring.datasource.url=" + TestServer.url(),
            "--spring.datasource.username=" + TestServer.USER,
            "--spring.application.name=" + TestServer.uniqueName("aot"),
            "--spring.profiles.active=job",
            "--pgleader.takeover-delay=none"
        };
        // What the goal process-aot of Spring Boot's Maven plugin runs: sources, resources and proxy classes.
        List<String> processing = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                SampleProcess.CLASS_PATH,
                "org.springframework.boot.SpringApplicationAotProcessor",
                SampleApplication.class.getName(),
                sources.toString(),
                classes.toString(),
                classes.toString(),
                "test",
                "sample"));
        processing.addAll(List.of(configuration));
        Process process =
                new ProcessBuilder(processing).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor()).as(said).isZero();
        assertThat(classes.resolve("META-INF/native-image/test/sample/reachability-metadata.json"))
                .content()
                .contains(LeaderRuntimeHints.SOCKET_FACTORY.getName(), "dev.pgleader.spring.sample.Job");
        compile(sources, classes);

        try (var application = SampleProcess.builtAheadOfTime(classes, List.of(configuration))) {
            application.await("begin ");
            assertThat(application.lines())
                    .anyMatch(line -> line.text().contains("Starting AOT-processed SampleApplication"));
        }
    }

    private static void compile(Path sources, Path classes) throws IOException {
        var compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null);
                Stream<Path> all = Files.walk(sources)) {
            var units = files.getJavaFileObjectsFromPaths(
                    all.filter(Files::isRegularFile).toList());
            String classPath = classes + File.pathSeparator + SampleProcess.CLASS_PATH;
            List<String> options = List.of("-cp", classPath, "-d", classes.toString(), "-proc:none", "-nowarn");
            assertThat(compiler.getTask(null, files, null, options, null, units).call())
                    .isTrue();
        }
    }

    @Test
    @CompileWithForkedClassLoader
    void anApplicationThatIsProcessedAheadOfTimeHasItsElectors() {
        GenericApplicationContext atBuildTime = context("1s");
        AnnotationConfigUtils.registerAnnotationConfigProcessors(atBuildTime);
        new AnnotatedBeanDefinitionReader(atBuildTime).register(Application.class);
        TestGenerationContext generation = new TestGenerationContext(Application.class);
        var initializerName = new ApplicationContextAotGenerator().processAheadOfTime(atBuildTime, generation);
        generation.writeGeneratedContent();

        assertThat(RuntimeHintsPredicates.reflection().onType(LeaderRuntimeHints.SOCKET_FACTORY))
                .accepts(generation.getRuntimeHints());
        assertThat(RuntimeHintsPredicates.reflection().onType(LeaderProperties.class))
                .accepts(generation.getRuntimeHints());

        // Where the methods are that its proxies call.
        for (Class<?> declaring : List.of(DocumentedJobs.class, Job.class, Inherited.class)) {
            assertThat(RuntimeHintsPredicates.reflection()
                            .onType(declaring)
                            .withMemberCategory(MemberCategory.INVOKE_DECLARED_METHODS))
                    .accepts(generation.getRuntimeHints());
        }

        TestCompiler.forSystem().with(generation).compile(compiled -> {
            @SuppressWarnings("unchecked")
            ApplicationContextInitializer<GenericApplicationContext> initializer =
                    compiled.getInstance(ApplicationContextInitializer.class, initializerName.toString());
            try (GenericApplicationContext atRunTime = context("250ms")) {
                initializer.initialize(atRunTime);
                atRunTime.refresh();
                assertThat(atRunTime.getBean(LeaderElector.class).name()).isEqualTo("orders");
                assertThat(atRunTime.getBeansOfType(LeaderElector.class)).hasSize(2);
                assertThat(atRunTime.getBean(ElectorOptions.class).retryInterval())
                        .hasMillis(250);
                assertThat(atRunTime.getBean(DocumentedJobs.class).sendBills()).isEmpty();
                assertThat(atRunTime.getBean(DocumentedImport.class)).isNotNull();
            }
        });
    }
}
