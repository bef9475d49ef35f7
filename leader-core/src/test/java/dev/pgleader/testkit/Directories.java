package dev.pgleader.testkit;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Copies and removes whole directories, also while their files come and go. */
final class Directories {

    private Directories() {}

    /** Creates a new directory for temporary files, owned by the user that servers run as. */
    static Path createTemporary(String prefix) throws IOException {
        Path directory = Files.createTempDirectory(prefix);
        UnprivilegedUser.own(directory);
        return directory;
    }

    /**
     * Copies a directory with owners and permissions; files that vanish meanwhile are left out.
     *
     * @param wanted tells of each path relative to {@code source} whether it is copied
     */
    static void copy(Path source, Path target, Predicate<Path> wanted) throws IOException {
        Files.walkFileTree(source, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path directory, BasicFileAttributes attributes)
                    throws IOException {
                return copy(directory) ? FileVisitResult.CONTINUE : FileVisitResult.SKIP_SUBTREE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                copy(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException failure) throws IOException {
                return continueIfVanished(failure);
            }

            private boolean copy(Path path) throws IOException {
                Path relative = source.relativize(path);
                if (!wanted.test(relative)) {
                    return false;
                }
                try {
                    Files.copy(path, target.resolve(relative), StandardCopyOption.COPY_ATTRIBUTES);
                    return true;
                } catch (NoSuchFileException e) {
                    return false;
                }
            }
        });
    }

    /** Removes a directory and all that is in it, if it exists. */
    static void delete(Path directory) throws IOException {
        Files.walkFileTree(directory, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.deleteIfExists(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException failure) throws IOException {
                return continueIfVanished(failure);
            }

            @Override
            public FileVisitResult postVisitDirectory(Path visited, @Nullable IOException failure) throws IOException {
                if (failure != null) {
                    throw failure;
                }
                Files.deleteIfExists(visited);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    private static FileVisitResult continueIfVanished(IOException failure) throws IOException {
        if (failure instanceof NoSuchFileException) {
            return FileVisitResult.CONTINUE;
        }
        throw failure;
    }
}
