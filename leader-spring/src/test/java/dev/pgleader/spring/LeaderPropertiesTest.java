package dev.pgleader.spring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ElectorOptions;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.RecordComponent;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;
import org.springframework.boot.convert.ApplicationConversionService;
import org.springframework.boot.json.JsonParserFactory;

class LeaderPropertiesTest {

    private static LeaderProperties bind(Map<String, String> properties) {
        var conversion = new ApplicationConversionService();
        conversion.addConverter(new TakeoverDelayConverter());
        return new Binder(List.of(new MapConfigurationPropertySource(properties)), null, conversion)
                .bindOrCreate("pgleader", LeaderProperties.class);
    }

    @Test
    void theDefaultsAreThoseOfTheCore() {
        LeaderProperties defaults = bind(Map.of());
        assertThat(defaults.toOptions()).hasToString(ElectorOptions.defaults().toString());
        assertThat(defaults.toSpread()).isEmpty();
        assertThat(defaults.enabled()).isTrue();
    }

    @Test
    void everyOptionIsTakenFromItsProperty() {
        ElectorOptions options = bind(Map.ofEntries(
                        Map.entry("pgleader.lease-duration", "20s"),
                        Map.entry("pgleader.safety-margin", "3s"),
                        Map.entry("pgleader.health-check-interval", "4s"),
                        Map.entry("pgleader.health-check-timeout", "2s"),
                        Map.entry("pgleader.retry-interval", "1500ms"),
                        Map.entry("pgleader.retry-jitter", "0.1"),
                        Map.entry("pgleader.acquisition-mode", "queue"),
                        Map.entry("pgleader.queue-slice", "1s"),
                        Map.entry("pgleader.max-reconnect-delay", "7s"),
                        Map.entry("pgleader.revoke-timeout", "8s"),
                        Map.entry("pgleader.cool-down", "9s"),
                        Map.entry("pgleader.takeover-delay", "NONE"),
                        Map.entry("pgleader.remote-resignation", "false"),
                        Map.entry("pgleader.unenforced-lease-accepted", "true")))
                .toOptions();
        assertThat(options)
                .hasToString(
                        "leaseDuration=20000ms safetyMargin=3000ms trustWindow=17000ms healthCheckInterval=4000ms"
                                + " healthCheckTimeout=2000ms retryInterval=1500ms retryJitter=0.1"
                                + " acquisitionMode=QUEUE queueSlice=1000ms maxReconnectDelay=7000ms revokeTimeout=8000ms coolDown=9000ms takeoverDelay=NONE unenforcedLeaseAccepted=true remoteResignation=false");
    }

    @Test
    void everyPropertyIsDescribedInTheMetadata() throws IOException {
        Map<String, Object> described = describedProperties();
        assertThat(described.values()).doesNotContainNull();
        for (RecordComponent component : LeaderProperties.class.getRecordComponents()) {
            String name = "pgleader."
                    + component.getName().replaceAll("([A-Z])", "-$1").toLowerCase(Locale.ROOT);
            assertThat(described.keySet())
                    .as(name)
                    .anyMatch(known -> known.equals(name) || known.startsWith(name + "."));
        }
    }

    /** The properties of the metadata, with what it says of each. */
    static Map<String, Object> describedProperties() throws IOException {
        Map<String, Object> described = new TreeMap<>();
        metadata().forEach((name, property) -> described.put(name, property.get("description")));
        return described;
    }

    /** What type the metadata gives a property. */
    static Object typeOf(String property) throws IOException {
        return metadata().get(property).get("type");
    }

    private static Map<String, Map<?, ?>> metadata() throws IOException {
        Map<String, Map<?, ?>> byName = new TreeMap<>();
        try (InputStream json =
                LeaderProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            assertThat(json).as("metadata").isNotNull();
            var metadata = JsonParserFactory.getJsonParser().parseMap(new String(json.readAllBytes(), UTF_8));
            for (Object each : (Iterable<?>) metadata.get("properties")) {
                Map<?, ?> property = (Map<?, ?>) each;
                byName.put((String) property.get("name"), property);
            }
        }
        return byName;
    }

    @Test
    void passwordsAreNotShown() {
        assertThat(bind(Map.of("pgleader.datasource.password", "secret", "pgleader.datasource.url", "secret")))
                .asString()
                .doesNotContain("secret");
    }
}
