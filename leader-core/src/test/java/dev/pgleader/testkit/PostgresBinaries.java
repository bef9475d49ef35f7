package dev.pgleader.testkit;

import io.zonky.test.db.postgres.embedded.DefaultPostgresBinaryResolver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.compressors.xz.XZCompressorInputStream;

/**
 * An unpacked PostgreSQL with a data directory to copy for new servers. Unpacked once into the directory for temporary
 * files ({@code pgleader-postgres-*}), and kept there for later runs.
 *
 * <p>Immutable and safe for use by any number of threads and processes.
 */
public final class PostgresBinaries {

    static final String SUPERUSER = "postgres";
    static final String SUPERUSER_PASSWORD = "superuser-password";

    private static final Set<PosixFilePermission> OPEN_DIRECTORY = PosixFilePermissions.fromString("rwxr-xr-x");

    private final Path directory;

    private PostgresBinaries(Path directory) {
        this.directory = directory;
    }

    /** Returns the PostgreSQL whose binaries are on the class path. */
    public static PostgresBinaries bundled() {
        return Bundled.BINARIES;
    }

    Path program(String name) {
        return directory.resolve("bin").resolve(name);
    }

    /** A data directory of a cluster that has never run, owned by the user that servers run as. */
    Path dataTemplate() {
        return directory.resolve("data-template");
    }

    private static PostgresBinaries unpacked(byte[] archive) throws IOException {
        Path temporaryFiles = Path.of(System.getProperty("java.io.tmpdir"));
        // The name of the user is part of it, since one user's data directory is of no use to another.
        Path directory =
                temporaryFiles.resolve("pgleader-postgres-" + UnprivilegedUser.name() + "-" + fingerprint(archive));
        if (!Files.isDirectory(directory)) {
            Path unfinished = Files.createTempDirectory("pgleader-unpacking-");
            try {
                Files.setPosixFilePermissions(unfinished, OPEN_DIRECTORY);
                unpack(archive, unfinished);
                createDataTemplate(new PostgresBinaries(unfinished));
                Files.move(unfinished, directory, StandardCopyOption.ATOMIC_MOVE);
            } catch (FileSystemException e) {
                if (!Files.isDirectory(directory)) {
                    throw e;
                }
                // Another process was faster.
            } finally {
                Directories.delete(unfinished);
            }
        }
        return new PostgresBinaries(directory);
    }

    private static String fingerprint(byte[] archive) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(archive);
            return HexFormat.of().formatHex(digest, 0, 6);
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("each Java platform has SHA-256", e);
        }
    }

    private static void unpack(byte[] archive, Path target) throws IOException {
        try (TarArchiveInputStream entries =
                new TarArchiveInputStream(new XZCompressorInputStream(new ByteArrayInputStream(archive)))) {
            for (TarArchiveEntry entry = entries.getNextEntry(); entry != null; entry = entries.getNextEntry()) {
                Path path = entry.resolveIn(target);
                boolean directory = entry.isDirectory();
                createDirectories(target, target.relativize(directory ? path : path.resolveSibling("")));
                if (!directory) {
                    unpack(entry, entries, path);
                }
            }
        }
    }

    private static void createDirectories(Path target, Path relative) throws IOException {
        Path path = target;
        for (Path name : relative) {
            path = path.resolve(name);
            if (!Files.isDirectory(path)) {
                Files.createDirectory(path);
                // Whatever the umask is: the user that servers run as has to get there.
                Files.setPosixFilePermissions(path, OPEN_DIRECTORY);
            }
        }
    }

    private static void unpack(TarArchiveEntry entry, InputStream content, Path path) throws IOException {
        if (entry.isSymbolicLink()) {
            Files.createSymbolicLink(path, Path.of(entry.getLinkName()));
        } else {
            Files.copy(content, path);
            String permissions = (entry.getMode() & 0100) == 0 ? "rw-r--r--" : "rwxr-xr-x";
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
        }
    }

    private static void createDataTemplate(PostgresBinaries binaries) throws IOException {
        Path data = Files.createDirectory(binaries.dataTemplate());
        UnprivilegedUser.own(data);
        Path password = Files.writeString(binaries.directory.resolve("superuser-password"), SUPERUSER_PASSWORD);
        UnprivilegedUser.own(password);
        List<String> initdb = new ArrayList<>(List.of(binaries.program("initdb").toString()));
        initdb.addAll(List.of("--pgdata", data.toString(), "--username", SUPERUSER, "--pwfile", password.toString()));
        // Small WAL segments make the copies small.
        initdb.addAll(List.of("--encoding=UTF8", "--locale=C", "--wal-segsize=1", "--no-sync", "--no-instructions"));
        initdb.add("--auth=scram-sha-256");
        Command.run(UnprivilegedUser.command(initdb));
        Files.delete(password);
    }

    private static final class Bundled {

        static final PostgresBinaries BINARIES = unpackBundled();

        private static PostgresBinaries unpackBundled() {
            String architecture = System.getProperty("os.arch");
            try (InputStream archive = DefaultPostgresBinaryResolver.INSTANCE.getPgBinary(
                    System.getProperty("os.name"), architecture.equals("amd64") ? "x86_64" : architecture)) {
                return unpacked(archive.readAllBytes());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
