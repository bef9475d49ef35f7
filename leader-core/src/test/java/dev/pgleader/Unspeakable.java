package dev.pgleader;

/** An exception that throws whatever it is asked. */
final class Unspeakable extends RuntimeException {

    private static final long serialVersionUID = 1L;

    @Override
    public String getMessage() {
        throw new IllegalStateException("scripted: no message");
    }

    @Override
    public String toString() {
        throw new IllegalStateException("scripted: no text");
    }

    @Override
    public synchronized Throwable getCause() {
        throw new IllegalStateException("scripted: no cause");
    }
}
