package dev.pgleader;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** What a benchmark found, as a table for {@code docs/performance.md}. */
final class MarkdownTable {

    private final List<String> lines = new ArrayList<>();

    MarkdownTable(String... headings) {
        lines.add(line(List.of(headings)));
        lines.add("|---".repeat(headings.length) + "|");
    }

    /** Adds a row; numbers with a fraction are shown with one digit of it. */
    void row(Object... cells) {
        List<String> texts = new ArrayList<>();
        for (Object cell : cells) {
            texts.add(cell instanceof Double number ? String.format(Locale.ROOT, "%.1f", number) : cell.toString());
        }
        lines.add(line(texts));
    }

    void print() {
        System.out.println("\n" + String.join("\n", lines) + "\n");
    }

    private static String line(List<String> cells) {
        return "| " + String.join(" | ", cells) + " |";
    }
}
