package dev.pgleader.spring;

import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

@Component
@Election("billing")
class DocumentedListener implements LeadershipListener {

    final List<String> told = new CopyOnWriteArrayList<>();

    @Override
    public void onElected(Leadership leadership) {
        told.add("elected");
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        told.add("revoked " + reason);
    }
}

@Component
class DocumentedEvents {

    @EventListener
    void on(LeaderElectedEvent event) {
        System.out.println("leads " + event.election() + " in term " + event.term());
    }

    @EventListener
    void on(LeaderRevokedEvent event) {
        System.out.println("no longer leads " + event.election() + ": " + event.reason());
    }
}
