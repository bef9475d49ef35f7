package dev.pgleader.example.lab;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

class LabArchitectureTest {

    private static final String LAB = "dev.pgleader.example.lab";

    @Test
    void arrowsPointDownOnly() {
        JavaClasses classes = new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages(LAB);
        layeredArchitecture()
                .consideringOnlyDependenciesInLayers()
                .layer("application")
                .definedBy(LAB)
                .layer("web")
                .definedBy(LAB + ".web")
                .layer("supervisor")
                .definedBy(LAB + ".supervisor")
                .layer("node")
                .definedBy(LAB + ".node")
                .whereLayer("application")
                .mayNotBeAccessedByAnyLayer()
                .whereLayer("web")
                .mayNotBeAccessedByAnyLayer()
                .whereLayer("supervisor")
                .mayOnlyBeAccessedByLayers("web", "application")
                .check(classes);
    }
}
