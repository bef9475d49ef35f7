package dev.pgleader.spring;

import dev.pgleader.LeaderElectorGroup;

/** A bean of this type completes the electors that are made of {@code pgleader.*}, each before it is built. */
@FunctionalInterface
public interface LeaderElectorCustomizer {

    /** Changes the builder of the elector of {@code election}, for instance with {@code campaignCondition(...)}. */
    void customize(String election, LeaderElectorGroup.MemberBuilder builder);
}
