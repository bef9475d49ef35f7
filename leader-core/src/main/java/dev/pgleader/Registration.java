package dev.pgleader;

/** Something that was added to an elector; {@link #close()} takes it out again. Closing twice does no harm. */
@FunctionalInterface
public interface Registration extends AutoCloseable {

    @Override
    void close();
}
