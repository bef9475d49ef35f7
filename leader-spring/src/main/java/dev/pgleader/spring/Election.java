package dev.pgleader.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.beans.factory.annotation.Qualifier;

/**
 * Names an election, where the application takes part in several.
 *
 * <p>At an injection point it selects the {@link dev.pgleader.LeaderElector} of that election. At a {@link
 * dev.pgleader.LeadershipListener}, its class or its {@code @Bean} method, it says which election the listener hears of;
 * without it a listener hears of all.
 */
@Qualifier
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD, ElementType.PARAMETER, ElementType.TYPE, ElementType.ANNOTATION_TYPE})
public @interface Election {

    /** The name of the election: as in {@code pgleader.elections.<name>}, or the key where there is but one. */
    String value();
}
