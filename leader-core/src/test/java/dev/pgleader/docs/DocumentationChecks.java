package dev.pgleader.docs;

import dev.pgleader.lock.LockKey;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What must hold of the documentation. Each check returns what is wrong, in words. */
final class DocumentationChecks {

    private static final Pattern TEST_CLASS = Pattern.compile("\\b[A-Z]\\w*(?:Test|Contract)\\b");
    private static final Pattern METER = Pattern.compile("\\bpgleader\\.[a-z.]*[a-z]\\b");
    private static final Pattern PROMETHEUS_METER = Pattern.compile("\\bpgleader_[a-z_]+");
    private static final Pattern GO_NAME = Pattern.compile("\\[]byte\\(\"([^\"]+)\"\\)");
    private static final Pattern GO_NUMBER = Pattern.compile("// (-?\\d+)");

    private DocumentationChecks() {}

    static List<String> brokenLinks(List<MarkdownPage> pages) {
        List<String> broken = new ArrayList<>();
        for (MarkdownPage page : pages) {
            for (String link : page.links()) {
                if (!link.matches("[a-z]+:.*") && !resolves(page, link, pages)) {
                    broken.add(page.path() + ": " + link);
                }
            }
        }
        return broken;
    }

    private static boolean resolves(MarkdownPage page, String link, List<MarkdownPage> pages) {
        String[] fileAndAnchor = link.split("#", 2);
        Path target = fileAndAnchor[0].isEmpty()
                ? page.path()
                : page.path().resolveSibling(fileAndAnchor[0]).normalize();
        if (fileAndAnchor.length == 1) {
            return Files.exists(MarkdownPage.ROOT.resolve(target));
        }
        return Stream.concat(pages.stream(), Stream.of(page))
                .filter(candidate -> candidate.path().equals(target))
                .anyMatch(candidate -> candidate.anchors().contains(fileAndAnchor[1]));
    }

    static List<String> missingTestClasses(List<MarkdownPage> pages) {
        Set<String> classes = sources().stream()
                .map(source -> source.getFileName().toString().replace(".java", ""))
                .collect(Collectors.toSet());
        return pages.stream()
                .flatMap(page -> TEST_CLASS
                        .matcher(page.prose())
                        .results()
                        .filter(match -> !classes.contains(match.group()))
                        .map(match -> page.path() + ": " + match.group()))
                .toList();
    }

    /** Of the Java that is shown, what no source file has outside of its Javadoc, whatever its line breaks. */
    static List<String> uncompiledJava(List<MarkdownPage> pages) {
        List<String> compiled = sources().stream()
                .map(source -> collapse(withoutComments(contentsOf(source))))
                .toList();
        return pages.stream()
                .flatMap(page -> page.blocks("java").stream())
                .filter(block ->
                        compiled.stream().noneMatch(source -> source.contains(collapse(withoutComments(block.text())))))
                .map(MarkdownPage.Block::toString)
                .toList();
    }

    /** Meters that a page names and that don't exist, in the form of Micrometer or in that of Prometheus. */
    static List<String> unknownMeters(MarkdownPage page, Set<String> meters) {
        Set<String> prometheus = new HashSet<>();
        for (String meter : meters) {
            String name = meter.replace('.', '_');
            for (String suffix : List.of("", "_total", "_seconds", "_seconds_count", "_seconds_sum", "_seconds_max")) {
                prometheus.add(name + suffix);
            }
        }
        return Stream.concat(
                        METER.matcher(page.text())
                                .results()
                                .map(match -> match.group())
                                .filter(name -> !meters.contains(name)),
                        PROMETHEUS_METER
                                .matcher(page.text())
                                .results()
                                .map(match -> match.group())
                                .filter(name -> !prometheus.contains(name)))
                .toList();
    }

    /**
     * Log lines that a page shows and that no source file writes. A page writes {@code <what>} where the source has the
     * placeholder.
     */
    static List<String> unknownLogLines(List<MarkdownPage> pages) {
        List<String> code = sources().stream()
                .filter(source -> source.toString().contains("src/main"))
                .map(source -> contentsOf(source).replaceAll("\"\\s*\\+\\s*\"", ""))
                .toList();
        return pages.stream()
                .flatMap(page -> page.blocks("log").stream())
                .flatMap(block -> block.text().lines())
                .filter(line -> !isWritten(line, code))
                .toList();
    }

    private static boolean isWritten(String line, List<String> code) {
        String[] levelAndMessage = line.strip().split(" +", 2);
        String message = "\"" + levelAndMessage[1].replaceAll("<[^>]+>", "{}") + "\"";
        Pattern call = Pattern.compile(
                "LOG\\." + levelAndMessage[0].toLowerCase(Locale.ROOT) + "\\(\\s*" + Pattern.quote(message));
        return code.stream().anyMatch(source -> call.matcher(source).find());
    }

    /** Go programs whose comment gives another number than the library. */
    static List<String> wrongGo(List<MarkdownPage> pages) {
        List<String> wrong = new ArrayList<>();
        for (MarkdownPage page : pages) {
            for (MarkdownPage.Block block : page.blocks("go")) {
                Matcher name = GO_NAME.matcher(block.text());
                Matcher number = GO_NUMBER.matcher(block.text());
                if (!name.find()
                        || !number.find()
                        || !LockKey.named(name.group(1)).equals(LockKey.of(Long.parseLong(number.group(1))))) {
                    wrong.add(block.toString());
                }
            }
        }
        return wrong;
    }

    private static String withoutComments(String java) {
        return java.replaceAll("(?s)/\\*.*?\\*/", "");
    }

    private static String collapse(String text) {
        return text.strip().replaceAll("\\s+", " ");
    }

    private static List<Path> sources() {
        try (Stream<Path> modules = Files.list(MarkdownPage.ROOT)) {
            return modules.map(module -> module.resolve("src"))
                    .filter(Files::isDirectory)
                    .flatMap(DocumentationChecks::filesIn)
                    .filter(file -> file.toString().endsWith(".java"))
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Stream<Path> filesIn(Path directory) {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.toList().stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String contentsOf(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
