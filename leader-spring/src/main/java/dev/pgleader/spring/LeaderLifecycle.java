package dev.pgleader.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The {@link org.springframework.context.Lifecycle} bean runs only where this instance is the leader: it is started when the
 * instance is elected, and stopped when leadership is revoked, before the lock is given up. For message listeners and the
 * like; on the bean's class or its {@code @Bean} method.
 *
 * <p>The bean must not start by itself: a {@code SmartLifecycle} whose {@code isAutoStartup()} is true is refused when the
 * application starts. Several of them start in the order of their phases and stop in the reverse order. For an object that is
 * no bean see {@link LeaderLifecycleListener}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.TYPE, ElementType.ANNOTATION_TYPE})
public @interface LeaderLifecycle {

    /**
     * The name of the election; may have placeholders. Not needed where the application takes part in one election, or one
     * of them is the election of {@code pgleader.key}.
     */
    String value() default "";
}
