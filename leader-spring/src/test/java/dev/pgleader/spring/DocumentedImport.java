package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.util.List;
import org.springframework.stereotype.Component;

@Component
class DocumentedImport {

    private final LeaderElector elector;

    DocumentedImport(@Election("billing") LeaderElector elector) {
        this.elector = elector;
    }

    void importAll(List<String> files) {
        for (String file : files) {
            if (!elector.isLeader()) {
                return;
            }
            System.out.println("imports " + file);
        }
    }
}
