package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.supervisor.LabEvent.EntriesCounted;
import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import java.util.List;

/**
 * What is known of the lab at one moment.
 *
 * @param nodes in the order in which they were added
 * @param leaders the nodes that act as leaders; one, or none
 * @param holder what the server shows
 * @param entries what the database job has written
 * @param databasePort where the server is reached without any proxy
 */
public record LabSnapshot(
        List<NodeChanged> nodes,
        List<String> leaders,
        HolderChanged holder,
        EntriesCounted entries,
        int databasePort) {}
