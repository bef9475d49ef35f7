package dev.pgleader;

import java.util.concurrent.Executor;

/**
 * Runs callbacks on an executor of the user's, which is called on a thread of ours: so it may block, run its tasks in the calling
 * thread, or refuse them, and then they run on that thread. Each task must be of the kind that does nothing when it's run a second
 * time.
 */
final class UserExecutor implements Executor {

    private static final Log LOG = Log.of(UserExecutor.class);

    private final Executor users;
    private final CallbackThreads ours;

    UserExecutor(Executor users, CallbackThreads ours) {
        this.users = users;
        this.ours = ours;
    }

    @Override
    public void execute(Runnable task) {
        ours.execute(() -> handOver(task));
    }

    private void handOver(Runnable task) {
        try {
            users.execute(task);
        } catch (Throwable e) {
            LOG.warn("The callback executor refuses tasks; they run on a thread of the elector's own", e);
            // If the executor took it nevertheless, the second run does nothing.
            task.run();
        }
    }
}
