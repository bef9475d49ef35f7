package dev.pgleader;

import java.util.ArrayList;
import java.util.List;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;

/**
 * Commands of any thread, and the turns of the election thread, which takes none if nobody calls it. Whatever it runs must be what
 * it would run if all came one after another: what was posted before a turn is run in it, in order, and once.
 */
public class CommandQueueInterleavings {

    private final CommandQueue commands = new CommandQueue();
    private final List<Integer> ran = new ArrayList<>(); // of the election thread

    @Operation
    public void post(@Param(gen = IntGen.class, conf = "1:3") int command) {
        commands.post(() -> ran.add(command));
    }

    @Operation
    public void wake() {
        commands.wake();
    }

    @Operation(nonParallelGroup = "election thread")
    public List<Integer> turn() {
        ran.clear();
        if (commands.isCalling()) {
            commands.runAll();
        }
        return List.copyOf(ran);
    }
}
