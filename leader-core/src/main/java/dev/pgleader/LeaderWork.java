package dev.pgleader;

/** Work that goes on for as long as its instance leads; see {@link LeaderElector#runWhileLeader}. */
@FunctionalInterface
public interface LeaderWork {

    /**
     * Does the work of one term. The thread is interrupted when the term is revoked; work that isn't interruptible asks
     * {@link Leadership#isValid()} now and then.
     *
     * @throws Exception if the work can't go on: the elector steps down, so that another instance can try
     */
    void run(Leadership leadership) throws Exception;
}
