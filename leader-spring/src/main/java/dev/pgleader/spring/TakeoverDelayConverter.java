package dev.pgleader.spring;

import dev.pgleader.TakeoverDelay;
import java.time.Duration;
import java.util.Locale;
import org.springframework.boot.context.properties.ConfigurationPropertiesBinding;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.convert.converter.Converter;

/** Reads {@code auto}, {@code none} or a duration. */
@ConfigurationPropertiesBinding
final class TakeoverDelayConverter implements Converter<String, TakeoverDelay> {

    @Override
    public TakeoverDelay convert(String text) {
        return switch (text.toLowerCase(Locale.ROOT)) {
            case "auto" -> TakeoverDelay.AUTO;
            case "none" -> TakeoverDelay.NONE;
            default -> TakeoverDelay.of(duration(text));
        };
    }

    private static Duration duration(String text) {
        try {
            return DurationStyle.detectAndParse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "Expected auto, none or a duration such as 15s, but found \"" + text + "\"", e);
        }
    }
}
