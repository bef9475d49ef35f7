package dev.pgleader;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaCall.Predicates.target;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.name;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.nameMatching;
import static com.tngtech.archunit.core.domain.properties.HasOwner.Predicates.With.owner;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.ArchConfiguration;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaField;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.library.dependencies.SliceAssignment;
import com.tngtech.archunit.library.dependencies.SliceIdentifier;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ArchitectureTest {

    /** With the tests, which use so much of other libraries that this isn't looked up. */
    private static final JavaClasses ALL = ArchConfiguration.withThreadLocalScope(configuration -> {
        configuration.setResolveMissingDependenciesFromClassPath(false);
        return new ClassFileImporter().importPackages("dev.pgleader");
    });

    private static final JavaClasses MAIN = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages("dev.pgleader");

    @Test
    void packagesHaveNoCycles() {
        slices().matching("dev.pgleader.(**)").should().beFreeOfCycles().check(MAIN);
    }

    /** Electors, groups and their builders make each other, and the rehearsal plays them: one room for this rule. */
    @Test
    void noClassesOfTheElectionFormACircle() {
        slices().assignedFrom(new SliceAssignment() {
                    @Override
                    public SliceIdentifier getIdentifierOf(JavaClass type) {
                        if (!type.getPackageName().equals("dev.pgleader")) {
                            return SliceIdentifier.ignore();
                        }
                        String file = type.getName().replaceFirst("\\$.*", "");
                        return SliceIdentifier.of(
                                file.matches(".*\\.(LeaderElector|LeaderElectorGroup|ElectorBuilder|Rehearsal)")
                                        ? "API"
                                        : file);
                    }

                    @Override
                    public String getDescription() {
                        return "the files of the election";
                    }
                })
                .should()
                .beFreeOfCycles()
                .check(MAIN);
    }

    @Test
    void arrowsPointDown() {
        layeredArchitecture()
                .consideringOnlyDependenciesInAnyPackage("dev.pgleader..")
                .layer("meters")
                .definedBy("dev.pgleader.micrometer")
                .layer("election")
                .definedBy("dev.pgleader")
                .layer("locks")
                .definedBy("dev.pgleader.lock")
                .layer("sockets")
                .definedBy("dev.pgleader.lock.socket")
                .whereLayer("meters")
                .mayNotBeAccessedByAnyLayer()
                .whereLayer("election")
                .mayOnlyBeAccessedByLayers("meters")
                .whereLayer("locks")
                .mayOnlyBeAccessedByLayers("meters", "election")
                .whereLayer("sockets")
                .mayOnlyBeAccessedByLayers("locks")
                .check(MAIN);
    }

    @Test
    void whoDecidesKnowsNoClockNoThreadNoLogAndNoDatabase() {
        classes()
                .that(nameMatching("dev\\.pgleader\\.CandidateState(\\$.*)?"))
                .should()
                .onlyDependOnClassesThat(nameMatching("dev\\.pgleader\\.(CandidateState(\\$.*)?|RevocationReason)"
                        + "|java\\.lang\\.(Object|Record|String|Math|Long|IllegalStateException|MatchException)"
                        + "|java\\.lang\\.(invoke|runtime)\\..*|java\\.util\\.List|org\\.jspecify\\..*"))
                .check(MAIN);
    }

    @Test
    void onlyTheLockLayerKnowsJdbcAndItsDriver() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.pgleader.lock..")
                .should()
                .dependOnClassesThat(resideInAPackage("java.sql..")
                        .or(resideInAPackage("javax.sql.."))
                        .or(resideInAPackage("org.postgresql..")))
                .check(MAIN);
    }

    @Test
    void onlyMetersKnowMicrometer() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.pgleader.micrometer")
                .should()
                .dependOnClassesThat()
                .resideInAPackage("io.micrometer..")
                .check(MAIN);
    }

    @Test
    void nobodySleepsNotEvenInTests() {
        noClasses()
                .should()
                .callMethodWhere(target(owner(assignableTo(Thread.class))).and(target(name("sleep"))))
                .orShould()
                .callMethodWhere(target(owner(assignableTo(TimeUnit.class))).and(target(name("sleep"))))
                .check(ALL);
    }

    /** The only use of the wall clock is the second clock of a lease. */
    @Test
    void intervalsAreNotMeasuredByTheWallClock() {
        noClasses()
                .that(not(assignableTo(Ticker.class)))
                .should()
                .callMethod(System.class, "currentTimeMillis")
                .check(ALL);
    }

    /** A lease alone ends in suspend, by the wall clock; the rest goes by what the monotonic one says. */
    @Test
    void onlyALeaseAsksForTheWallClock() {
        noClasses()
                .that(not(assignableTo(Ticker.class)))
                .and()
                .doNotHaveFullyQualifiedName(Lease.class.getName())
                .should()
                .callMethod(Ticker.class, "wallMillis")
                .check(MAIN);
    }

    /** No room is larger than one can live in. */
    @Test
    void noFileHasMoreThan400LinesOfCode() throws IOException {
        Map<String, Long> tooLong = new TreeMap<>();
        for (Path source : mainSources()) {
            long lines = codeLines(Files.readString(source));
            if (lines > 400) {
                tooLong.put(source.getFileName().toString(), lines);
            }
        }
        assertThat(tooLong).isEmpty();
    }

    /** What the packages have, rounded up a little: whoever makes one larger decides to, here. */
    @ParameterizedTest
    @CsvSource({
        "dev/pgleader, 4350",
        "dev/pgleader/lock, 2700",
        "dev/pgleader/lock/socket, 420",
        "dev/pgleader/micrometer, 200"
    })
    void noPackageGrowsUnnoticed(String folder, long limit) throws IOException {
        long lines = 0;
        for (Path source : mainSources()) {
            if (source.getParent().equals(Path.of("src/main/java", folder))) {
                lines += codeLines(Files.readString(source));
            }
        }
        assertThat(lines).isPositive().isLessThanOrEqualTo(limit);
    }

    /** Without comments, blank lines, imports and the package. */
    private static long codeLines(String source) {
        return Pattern.compile("/\\*.*?\\*/", Pattern.DOTALL)
                .matcher(source)
                .replaceAll("")
                .lines()
                .map(line -> line.replaceAll("//.*", "").strip())
                .filter(line -> !line.isEmpty() && !line.startsWith("import ") && !line.startsWith("package "))
                .count();
    }

    @Test
    void linesOfCodeAreCountedWithoutTheRest() {
        assertThat(
                        codeLines(
                                "package a;\n\nimport b.C;\n\n/**\n * text\n */\nclass A { // text\n    // text\n    int a;\n}\n"))
                .isEqualTo(3);
    }

    @Test
    void noClassHasMoreThan12Fields() {
        Map<String, Integer> tooMany = new TreeMap<>();
        for (JavaClass each : MAIN) {
            int fields = (int) each.getFields().stream()
                    .map(JavaField::getModifiers)
                    .filter(modifiers ->
                            !modifiers.contains(JavaModifier.STATIC) && !modifiers.contains(JavaModifier.SYNTHETIC))
                    .count();
            // A list of options or meters isn't what anybody has to keep in mind all at once.
            boolean isList = each.isRecord()
                    || each.getSimpleName().endsWith("Builder")
                    || each.isEquivalentTo(ElectorOptions.class);
            if (!isList && fields > 12) {
                tooMany.put(each.getName(), fields);
            }
        }
        assertThat(tooMany).isEmpty();
    }

    private static List<Path> mainSources() throws IOException {
        try (Stream<Path> sources = Files.walk(Path.of("src/main/java"))) {
            return sources.filter(path -> path.toString().endsWith(".java")).toList();
        }
    }

    @Test
    void theElectionReadsTheClockThroughItsTickerAlone() {
        noClasses()
                .that()
                .resideInAPackage("dev.pgleader")
                .and()
                .areNotAssignableTo(Ticker.class)
                .should()
                .callMethod(System.class, "nanoTime")
                .check(MAIN);
    }

    /** It needs a second connection to cancel, and hangs with it (C10). */
    @Test
    void nobodyTrustsAQueryTimeout() {
        noClasses()
                .should()
                .callMethodWhere(target(owner(assignableTo(Statement.class))).and(target(name("setQueryTimeout"))))
                .check(MAIN);
    }

    /** The whole of the SQL is to be read in two classes; what others say to the server has none. */
    @Test
    void sqlIsInTheSqlClassesAlone() throws IOException {
        Pattern statement = Pattern.compile("\"\\s*(SELECT|INSERT|UPDATE|DELETE|LISTEN|UNLISTEN|NOTIFY|SET|BEGIN|COMMIT"
                + "|ROLLBACK|SHOW|DISCARD|WITH|VALUES)\\s|\"pg_\\w+\\(");
        Set<String> withSql = new TreeSet<>();
        for (Path source : mainSources()) {
            if (statement.matcher(Files.readString(source)).find()) {
                withSql.add(source.getFileName().toString());
            }
        }
        assertThat(withSql).containsExactly("OneShotSql.java", "SessionSql.java");
    }
}
