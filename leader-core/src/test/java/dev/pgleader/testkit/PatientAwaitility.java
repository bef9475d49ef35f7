package dev.pgleader.testkit;

import java.time.Duration;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Has {@link Awaitility#await()} wait for a minute where a test doesn't say for how long: ten seconds, its own default, are over soon
 * on a machine that does much else. JUnit finds this extension by itself.
 */
public final class PatientAwaitility implements BeforeAllCallback {

    @Override
    public void beforeAll(ExtensionContext context) {
        Awaitility.setDefaultTimeout(Duration.ofMinutes(1));
    }
}
