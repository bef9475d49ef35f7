package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderInfo;
import dev.pgleader.LeaderStatus;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.springframework.boot.actuate.info.Info;
import org.springframework.boot.actuate.info.InfoContributor;

/** Tells role and leader of each election in the info endpoint. */
public final class LeaderInfoContributor implements InfoContributor {

    private final Supplier<Collection<LeaderElector>> electors;

    /** Information on these electors, which are looked up at each call. */
    public LeaderInfoContributor(Supplier<Collection<LeaderElector>> electors) {
        this.electors = electors;
    }

    @Override
    public void contribute(Info.Builder builder) {
        Map<String, Object> elections = new LinkedHashMap<>();
        electors.get().forEach(elector -> elections.put(elector.name(), describe(elector.status())));
        builder.withDetail("leader", elections);
    }

    private static Map<String, Object> describe(LeaderStatus status) {
        Map<String, Object> details = new LinkedHashMap<>();
        details.put("role", status.role());
        details.put("instanceId", status.instanceId());
        status.knownLeader().map(LeaderInfo::instanceId).ifPresent(leader -> details.put("leader", leader));
        return details;
    }
}
