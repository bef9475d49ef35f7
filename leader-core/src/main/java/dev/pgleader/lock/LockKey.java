package dev.pgleader.lock;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The key of a PostgreSQL advisory lock: what the members of a cluster compete for.
 *
 * <p>PostgreSQL has two separate key spaces, one of 64-bit keys and one of pairs of 32-bit keys, and a key is known
 * within one database only: the same key in two databases is two locks. See <a
 * href="https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS">Advisory Lock
 * Functions</a>.
 *
 * <p>Two keys are equal when they mean the same lock; the name that a key was made from does not count. {@link
 * #parse(String)} reads what {@link #toString()} writes. Immutable and thread-safe.
 */
public final class LockKey {

    /** What {@code pg_locks.objsubid} shows for a lock of either kind. */
    enum Space {
        BIGINT(1),
        INT_PAIR(2);

        final int objsubid;

        Space(int objsubid) {
            this.objsubid = objsubid;
        }
    }

    private static final long FNV_OFFSET_BASIS = 0xcbf29ce484222325L;
    private static final long FNV_PRIME = 0x100000001b3L;
    private static final String BIGINT_PREFIX = "bigint:";
    private static final String INT_PAIR_PREFIX = "int4:";

    private final Space space;
    private final long bits;
    private final @Nullable String name;

    private LockKey(Space space, long bits, @Nullable String name) {
        this.space = space;
        this.bits = bits;
        this.name = name;
    }

    /**
     * The 64-bit key of a name: FNV-1a over the name's UTF-8 bytes, read as a signed number. The value is the same on
     * every JVM and under every locale, is the same as that of Go's {@code hash/fnv.New64a}, and never changes between
     * versions of this library.
     *
     * @param name what the cluster competes for; qualify it with the service's name, since all users of a database
     *     share its keys
     * @throws IllegalArgumentException if the name is blank, or has an unpaired surrogate and so no UTF-8 form
     */
    public static LockKey named(String name) {
        if (name.isBlank()) {
            throw new IllegalArgumentException("The name of a lock key must not be blank, but is \"" + name
                    + "\": give it a name that is unique within the database, such as \"billing/nightly-run\"");
        }
        return new LockKey(Space.BIGINT, fnv1a64(name), name);
    }

    /** The 64-bit key with this value, for clusters that already agreed on a number. */
    public static LockKey of(long key) {
        return new LockKey(Space.BIGINT, key, null);
    }

    /** The key with these two 32-bit parts. It never equals a 64-bit key, whatever the bits. */
    public static LockKey of(int first, int second) {
        return new LockKey(Space.INT_PAIR, ((long) first << Integer.SIZE) | Integer.toUnsignedLong(second), null);
    }

    /**
     * Reads the form that {@link #toString()} writes: {@code bigint:42} or {@code int4:4,2}.
     *
     * @throws IllegalArgumentException if the text has another form
     */
    public static LockKey parse(String text) {
        try {
            if (text.startsWith(BIGINT_PREFIX)) {
                return of(Long.parseLong(text.substring(BIGINT_PREFIX.length())));
            }
            int comma = text.indexOf(',');
            if (text.startsWith(INT_PAIR_PREFIX) && comma > 0) {
                return of(
                        Integer.parseInt(text.substring(INT_PAIR_PREFIX.length(), comma)),
                        Integer.parseInt(text.substring(comma + 1)));
            }
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(notAKey(text), e);
        }
        throw new IllegalArgumentException(notAKey(text));
    }

    /** The key as {@code pg_locks} orders it: in {@code space}, the two 32-bit halves of {@code bits}. */
    static LockKey ofBits(int objsubid, long bits) {
        return new LockKey(objsubid == Space.BIGINT.objsubid ? Space.BIGINT : Space.INT_PAIR, bits, null);
    }

    /** The name that this key was made from; empty if it was made from numbers. */
    public Optional<String> name() {
        return Optional.ofNullable(name);
    }

    /** {@code pg_locks.objsubid} of this lock. */
    int objsubid() {
        return space.objsubid;
    }

    /** {@code pg_locks.classid} in the upper half, {@code pg_locks.objid} in the lower. */
    long bits() {
        return bits;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof LockKey that && space == that.space && bits == that.bits;
    }

    @Override
    public int hashCode() {
        return 31 * space.objsubid + Long.hashCode(bits);
    }

    /** This lock in the form that {@link #parse(String)} reads, without the name. */
    @Override
    public String toString() {
        return space == Space.BIGINT
                ? BIGINT_PREFIX + bits
                : INT_PAIR_PREFIX + (int) (bits >> Integer.SIZE) + "," + (int) bits;
    }

    private static long fnv1a64(String name) {
        ByteBuffer bytes;
        try {
            bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(name));
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(
                    "The name of a lock key must be valid Unicode, but has an unpaired surrogate: \"" + name + "\"", e);
        }
        long hash = FNV_OFFSET_BASIS;
        while (bytes.hasRemaining()) {
            hash ^= bytes.get() & 0xff;
            hash *= FNV_PRIME;
        }
        return hash;
    }

    private static String notAKey(String text) {
        return "Not a lock key: \"" + text + "\"; expected bigint:<number> or int4:<number>,<number>";
    }
}
