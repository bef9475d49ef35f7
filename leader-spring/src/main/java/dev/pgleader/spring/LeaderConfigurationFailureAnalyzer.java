package dev.pgleader.spring;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Prints what is wrong and what to do, in place of a stack trace. */
final class LeaderConfigurationFailureAnalyzer extends AbstractFailureAnalyzer<LeaderConfigurationException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, LeaderConfigurationException cause) {
        return new FailureAnalysis(String.valueOf(cause.getMessage()), cause.action(), rootFailure);
    }
}
