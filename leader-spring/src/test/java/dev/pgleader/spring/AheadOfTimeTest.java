package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import java.util.Map;
import org.junit.jupiter.api.Test;
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
    @Import({DocumentedJobs.class, DocumentedImport.class, DocumentedListener.class})
    static class Application {}

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
