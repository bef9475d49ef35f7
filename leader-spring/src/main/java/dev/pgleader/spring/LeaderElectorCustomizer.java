package dev.pgleader.spring;

import dev.pgleader.LeaderElector;

/** A bean of this type completes the electors that are made of {@code pgleader.*}, each before it is built. */
@FunctionalInterface
public interface LeaderElectorCustomizer {

    /** Changes the builder of the elector of {@code election}, for instance with {@code campaignWhen(...)}. */
    void customize(String election, LeaderElector.Builder builder);
}
