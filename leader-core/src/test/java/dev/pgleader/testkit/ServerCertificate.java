package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * A self-signed certificate for a server on the loopback interface, and its key, as the PEM files that PostgreSQL
 * reads.
 */
final class ServerCertificate {

    private static final String ALIAS = "server";
    private static final String PASSWORD = "changeit";

    private ServerCertificate() {}

    /** Makes a new key; the key's file is readable for the user that servers run as only. */
    static void create(Path certificateFile, Path keyFile) throws IOException {
        Path keyStoreFile = keyFile.resolveSibling("server.p12");
        generateKeyPair(keyStoreFile);
        try (InputStream content = Files.newInputStream(keyStoreFile)) {
            KeyStore keyStore = KeyStore.getInstance("PKCS12");
            keyStore.load(content, PASSWORD.toCharArray());
            write(certificateFile, "CERTIFICATE", keyStore.getCertificate(ALIAS).getEncoded());
            write(
                    keyFile,
                    "PRIVATE KEY",
                    keyStore.getKey(ALIAS, PASSWORD.toCharArray()).getEncoded());
        } catch (GeneralSecurityException e) {
            throw new IOException("the key store of keytool can't be read", e);
        }
        Files.setPosixFilePermissions(keyFile, PosixFilePermissions.fromString("rw-------"));
        UnprivilegedUser.own(keyFile);
        Files.delete(keyStoreFile);
    }

    private static void generateKeyPair(Path keyStoreFile) throws IOException {
        List<String> keytool = new ArrayList<>();
        keytool.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        keytool.addAll(List.of("-genkeypair", "-alias", ALIAS, "-keyalg", "EC", "-groupname", "secp256r1"));
        keytool.addAll(List.of("-dname", "CN=localhost", "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-validity", "30"));
        keytool.addAll(List.of("-keystore", keyStoreFile.toString(), "-storetype", "PKCS12", "-storepass", PASSWORD));
        Command.run(keytool);
    }

    private static void write(Path file, String label, byte[] content) throws IOException {
        String body = Base64.getMimeEncoder(64, "\n".getBytes(US_ASCII)).encodeToString(content);
        Files.writeString(file, "-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n");
    }
}
