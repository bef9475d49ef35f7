package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What {@code docs/spring.md} shows is compiled, and what it says of properties is so. */
class DocumentationTest {

    private static final Path DOCUMENT = Path.of("..", "docs", "spring.md");
    private static final Pattern SNIPPET = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final Pattern REGION = Pattern.compile("// tag: [^\n]*\n(.*?)\n\\h*// end", Pattern.DOTALL);
    private static final Pattern PROPERTY = Pattern.compile("^\\| `(pgleader\\.[^`]+)`", Pattern.MULTILINE);

    @Test
    void theSnippetsAreThoseOfTheSources() throws IOException {
        List<String> regions = new ArrayList<>();
        try (Stream<Path> sources = Files.list(Path.of("src/test/java/dev/pgleader/spring"))) {
            for (Path source : sources.filter(Files::isRegularFile).toList()) {
                REGION.matcher(Files.readString(source))
                        .results()
                        .map(found -> found.group(1).stripIndent().strip())
                        .forEach(regions::add);
            }
        }
        List<String> snippets = SNIPPET.matcher(Files.readString(DOCUMENT))
                .results()
                .map(found -> found.group(1).strip())
                .toList();
        assertThat(snippets).isNotEmpty().isSubsetOf(regions);
        assertThat(snippets).hasSameSizeAs(regions);
    }

    @Test
    void thePropertiesAreThoseOfTheMetadata() throws IOException {
        List<String> documented = PROPERTY.matcher(Files.readString(DOCUMENT))
                .results()
                .map((MatchResult found) -> found.group(1))
                .toList();
        List<String> known = LeaderPropertiesTest.describedProperties().keySet().stream()
                .filter(name -> name.startsWith("pgleader.") && !name.equals("pgleader.elections"))
                .toList();
        // Tools complete what a map holds from its type, which the metadata names.
        List<String> ofEachElection = Arrays.stream(LeaderProperties.ElectionProperties.class.getRecordComponents())
                .map(component -> "pgleader.elections.<name>." + component.getName())
                .toList();
        assertThat(LeaderPropertiesTest.typeOf("pgleader.elections"))
                .isEqualTo(
                        "java.util.Map<java.lang.String," + LeaderProperties.ElectionProperties.class.getName() + ">");
        assertThat(documented)
                .hasSameElementsAs(
                        Stream.concat(known.stream(), ofEachElection.stream()).toList());
    }
}
