package dev.pgleader;

import java.util.Arrays;

/**
 * Whether a thread has called {@link System#exit}. Such a call returns never: it waits for the shutdown hooks, so a hook that waits
 * for that thread would wait for itself.
 */
final class JvmExit {

    private JvmExit() {}

    static boolean isCalledBy(Thread thread) {
        return Arrays.stream(thread.getStackTrace())
                .anyMatch(frame -> frame.getClassName().equals("java.lang.Shutdown"));
    }
}
