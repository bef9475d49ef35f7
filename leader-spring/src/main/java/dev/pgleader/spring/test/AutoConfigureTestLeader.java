package dev.pgleader.spring.test;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;

/**
 * Has the elections of a test's application context decided by the test, through its {@link TestLeaderElectors} bean, and not
 * by a database. At a test class, beside {@code @SpringBootTest} or a slice's annotation.
 */
@Inherited
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ImportAutoConfiguration(TestLeaderAutoConfiguration.class)
public @interface AutoConfigureTestLeader {}
