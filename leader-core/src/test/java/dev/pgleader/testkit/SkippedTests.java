package dev.pgleader.testkit;

import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/**
 * Tells at the end of a build how many tests ran in each module, and which were skipped and why, from Surefire's reports ({@code report}), or fails where
 * {@code -Dtest} names a class that is in no module ({@code check}). Run by the build; arguments: which of the two, the time at
 * which the build began, what {@code -Dtest} was given, and the modules' directories.
 */
final class SkippedTests {

    private static final String REASON_BEGINS = "Assumption failed: ";

    private final Map<String, Map<String, Integer>> classesByReason = new TreeMap<>();
    private final Map<String, Integer> testsByModule = new LinkedHashMap<>();

    private SkippedTests() {}

    public static void main(String[] arguments) throws Exception {
        Instant began = Instant.parse(arguments[1]);
        // What isn't given, Maven leaves as it stands in its file.
        boolean all = arguments[2].startsWith("${");
        SkippedTests skipped = new SkippedTests();
        for (String module : List.of(arguments).subList(3, arguments.length)) {
            skipped.read(Path.of(module).normalize(), began);
        }
        if (arguments[0].equals("report")) {
            skipped.print(all);
        } else if (!all && skipped.tests() == 0) {
            System.out.println("No test of any module is called " + arguments[2]);
            System.exit(1);
        }
    }

    private void read(Path module, Instant began) throws Exception {
        List<Path> files;
        try (Stream<Path> entries = Files.list(module.resolve("target/surefire-reports"))) {
            files = entries.filter(file -> file.getFileName().toString().matches("TEST-.*\\.xml"))
                    .toList();
        } catch (NoSuchFileException e) {
            return;
        }
        for (Path file : files) {
            if (!Files.getLastModifiedTime(file).toInstant().isBefore(began)) {
                Document report = DocumentBuilderFactory.newInstance()
                        .newDocumentBuilder()
                        .parse(file.toFile());
                testsByModule.merge(module.getFileName().toString(), read(report), Integer::sum);
            }
        }
    }

    /** Returns how many tests it has. */
    private int read(Document report) {
        NodeList skips = report.getElementsByTagName("skipped");
        for (int i = 0; i < skips.getLength(); i++) {
            Element skip = (Element) skips.item(i);
            String name = ((Element) skip.getParentNode()).getAttribute("classname");
            classesByReason
                    .computeIfAbsent(reason(skip), reason -> new TreeMap<>())
                    .merge(name.substring(name.lastIndexOf('.') + 1), 1, Integer::sum);
        }
        return report.getElementsByTagName("testcase").getLength();
    }

    private int tests() {
        return testsByModule.values().stream().mapToInt(Integer::intValue).sum();
    }

    private static String reason(Element skip) {
        String message = skip.getAttribute("message");
        String reason = (message.isEmpty() ? skip.getTextContent() : message)
                .lines()
                .findFirst()
                .orElse("no reason given");
        int begin = reason.indexOf(REASON_BEGINS);
        return begin < 0 ? reason : reason.substring(begin + REASON_BEGINS.length());
    }

    private void print(boolean all) {
        System.out.println("Tests: " + testsByModule);
        if (classesByReason.isEmpty()) {
            System.out.println("Skipped: none of " + tests() + " tests");
        }
        classesByReason.forEach((reason, classes) -> System.out.println("Skipped: " + reason + ": " + classes));
        if (all) {
            System.out.println(
                    "Run apart, see CONTRIBUTING.md: tests in a container, long fault runs, benchmarks, other versions of"
                            + " PostgreSQL, Java and Spring Boot");
        }
    }
}
