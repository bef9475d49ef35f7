package dev.pgleader.lock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.postgresql.core.Encoding;
import org.postgresql.core.QueryExecutorBase;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the texts of a connection as the driver does, but not too many of them between two statements: the driver keeps all
 * notifications that it meets, and on a socket that isn't ours nothing else can stop it. One thread uses it.
 */
final class BoundedEncoding extends Encoding {

    private static final Logger LOG = LoggerFactory.getLogger(BoundedEncoding.class);
    private static final int LONGEST_BYTES = 8 * 1024 * 1024;
    /** About what a notification takes in the driver beside its text. */
    private static final int OVERHEAD_BYTES = 128;

    private long left = LONGEST_BYTES;

    private BoundedEncoding() {
        super(StandardCharsets.UTF_8);
    }

    static BoundedEncoding of(PgConnection connection) {
        BoundedEncoding encoding = new BoundedEncoding();
        try {
            if (connection.getQueryExecutor() instanceof QueryExecutorBase executor) {
                executor.setEncoding(encoding);
            }
        } catch (IOException e) {
            LOG.debug("The connection is broken, as its first statement will show", e);
        }
        return encoding;
    }

    /** The bound begins anew. */
    void renew() {
        left = LONGEST_BYTES;
    }

    @Override
    public String decode(byte[] encoded, int offset, int length) throws IOException {
        left -= length + OVERHEAD_BYTES;
        if (left < 0) {
            throw new IOException("The server sent more than " + LONGEST_BYTES / 1024 / 1024
                    + " MiB unasked, as when somebody floods the database with notifications");
        }
        return super.decode(encoded, offset, length);
    }

    /** The driver takes an encoding for the one that it has if they have one name. */
    @Override
    public String name() {
        return "bounded " + super.name();
    }
}
