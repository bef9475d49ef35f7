package dev.pgleader.docs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A page of the documentation, as far as it can be tested.
 *
 * @param path where it is, from the root of the repository
 * @param prose its text without what stands in fences
 * @param blocks what stands in fences
 * @param anchors what a link may lead to within it
 */
record MarkdownPage(Path path, String prose, List<Block> blocks, Set<String> anchors) {

    /** The root of the repository. */
    static final Path ROOT = Path.of("..").toAbsolutePath().normalize();

    private static final Pattern HEADING = Pattern.compile("#{1,6} +(.*)");
    private static final Pattern LINK = Pattern.compile("\\[[^\\]]*\\]\\(([^)\\s]+)\\)");

    /**
     * What stands between two fences.
     *
     * @param heading the last heading before it
     * @param language what the fence says of it
     */
    record Block(Path page, String heading, String language, String text) {

        /** SQL that no page has. */
        static Block sql(String text) {
            return new Block(Path.of("nowhere"), "none", "sql", text);
        }

        @Override
        public String toString() {
            return page + ", " + heading + ":\n" + text;
        }
    }

    /** All pages: those at the root, and those of {@code docs}. */
    static List<MarkdownPage> all() throws IOException {
        try (Stream<Path> top = Files.list(ROOT);
                Stream<Path> docs = Files.walk(ROOT.resolve("docs"))) {
            return Stream.concat(top, docs)
                    .filter(file -> file.toString().endsWith(".md"))
                    .sorted()
                    .map(MarkdownPage::read)
                    .toList();
        }
    }

    private static MarkdownPage read(Path file) {
        try {
            return parse(ROOT.relativize(file), Files.readString(file));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static MarkdownPage parse(Path path, String markdown) {
        StringBuilder prose = new StringBuilder();
        List<Block> blocks = new ArrayList<>();
        Set<String> anchors = new LinkedHashSet<>();
        Map<String, Integer> repetitions = new HashMap<>();
        String heading = "";
        String language = null;
        StringBuilder fenced = new StringBuilder();
        for (String line : markdown.lines().toList()) {
            if (line.startsWith("```")) {
                if (language == null) {
                    language = line.substring(3).strip();
                } else {
                    blocks.add(new Block(path, heading, language, fenced.toString()));
                    language = null;
                    fenced.setLength(0);
                }
            } else if (language != null) {
                fenced.append(line).append('\n');
            } else {
                Matcher matcher = HEADING.matcher(line);
                if (matcher.matches()) {
                    heading = matcher.group(1).strip();
                    String anchor = anchor(heading);
                    int repetition = repetitions.merge(anchor, 1, Integer::sum) - 1;
                    anchors.add(repetition == 0 ? anchor : anchor + "-" + repetition);
                }
                prose.append(line).append('\n');
            }
        }
        if (language != null) {
            throw new IllegalArgumentException(path + ": a fence isn't closed");
        }
        return new MarkdownPage(path, prose.toString(), List.copyOf(blocks), Set.copyOf(anchors));
    }

    /** As GitHub makes it. */
    private static String anchor(String heading) {
        return heading.toLowerCase(Locale.ROOT)
                .replaceAll("[^\\p{L}\\p{N}\\s_-]", "")
                .replaceAll("\\s", "-");
    }

    /** What it links to, as written. */
    List<String> links() {
        return LINK.matcher(prose.replaceAll("`[^`]*`", ""))
                .results()
                .map(match -> match.group(1))
                .toList();
    }

    List<Block> blocks(String wantedLanguage) {
        return blocks.stream()
                .filter(block -> block.language().equals(wantedLanguage))
                .toList();
    }

    /** All of its words. */
    String text() {
        StringBuilder text = new StringBuilder(prose);
        blocks.forEach(block -> text.append(block.text()));
        return text.toString();
    }
}
