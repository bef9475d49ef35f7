package dev.pgleader.lock.socket;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketImpl;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * A socket whose owner can wait for the peer, for a time and for a {@link #wake()} at once, while no one reads.
 *
 * <p>It differs from a plain socket in four ways. {@link #awaitReadable} waits until there is something to read
 * without reading it. Every read, write and connect is bounded: a timeout of 0, which for a plain socket means "for
 * ever", means {@code limit} here, and a write waits no longer than that either. And an interrupt of the thread that
 * waits in it closes it, as does a wait for the whole limit: the driver, which has begun to read a notification, would
 * retry for ever, or take the rest of it for another message. And what the peer may send unasked is bounded, since the
 * driver keeps all notifications that it meets: see {@link #offer}.
 *
 * <p>One thread uses it; {@link #wake()} and {@link #close()} may be called from any.
 */
// java.net.Socket locks itself where this class must not: close() waits for no one.
@SuppressWarnings("UnsynchronizedOverridesSynchronized")
public final class ChannelSocket extends Socket {

    private static final int READ_AHEAD_BYTES = 16 * 1024;
    /** An answer about fifty thousand keys is shorter; as notifications, each of few bytes, it takes eight times the memory. */
    private static final int LONGEST_ANSWER_BYTES = 2 * 1024 * 1024;
    /**
     * With this timeout the driver looks whether there is another message; it bears to be told that there is none. It's told so at
     * once, since whoever looks before it waits would miss a wake-up for that long; but it waits after
     * {@value #BYTES_OF_A_BATCH} bytes that came unasked, when the rest may be on its way.
     */
    private static final int LOOKING_TIMEOUT_MILLIS = 1;
    /** A network passes this much on in one piece. A statement that is sent in the middle of a batch gets its answer after the rest. */
    private static final int BYTES_OF_A_BATCH = 1024;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey selection;
    private final Duration limit;
    private final Input input = new Input();
    private final Output output = new Output();
    private volatile boolean woken;
    private volatile int readTimeoutMillis;
    private volatile @Nullable SocketTimeoutException expired;

    ChannelSocket(Duration limit) throws IOException {
        super((SocketImpl) null);
        this.limit = limit;
        selector = Selector.open();
        try {
            channel = SocketChannel.open();
            channel.configureBlocking(false);
            selection = channel.register(selector, 0);
        } catch (IOException e) {
            selector.close();
            throw e;
        }
    }

    /**
     * Waits until there is something to read (which includes the peer's close), the time is over, or {@link #wake()}
     * was called; a wake-up that came before the call counts and is used up.
     *
     * @return whether there is something to read
     */
    public boolean awaitReadable(long maxNanos) throws IOException {
        requireInTime();
        if (input.hasBuffered()) {
            return true;
        }
        boolean readable = maxNanos > 0 && await(SelectionKey.OP_READ, System.nanoTime() + maxNanos, true);
        woken = false;
        return readable;
    }

    /**
     * Offers the driver about {@code bytes} of what has come unasked: when it has taken as many, nothing more seems to be
     * there when it looks whether there is, though it gets the rest of a message that it has begun. This ends with the next
     * write; the answer to that is to come within {@value #LONGEST_ANSWER_BYTES} bytes, or the socket is closed.
     */
    public void offer(int bytes) {
        input.offered = bytes;
        input.answering = false;
    }

    /** Ends the current or the next {@link #awaitReadable}. Never disturbs a read, a write or a connect. */
    public void wake() {
        woken = true;
        selector.wakeup();
    }

    /** Waits for the operation; returns false at the deadline or, where that ends it, at a wake-up. */
    private boolean await(int operation, long deadlineNanos, boolean endsAtWake) throws IOException {
        try {
            selection.interestOps(operation);
            while (!(endsAtWake && woken)) {
                long leftNanos = deadlineNanos - System.nanoTime();
                if (leftNanos <= 0) {
                    return false;
                }
                // Rounded up: select(0) would wait for ever, and a rounded-down wait would spin at its end.
                selector.select(TimeUnit.NANOSECONDS.toMillis(leftNanos) + 1);
                if (Thread.currentThread().isInterrupted()) {
                    close();
                    throw new InterruptedIOException("Interrupted while waiting for the database; connection closed");
                }
                if (!selector.selectedKeys().isEmpty()) {
                    selector.selectedKeys().clear();
                    return true;
                }
                if (!channel.isOpen()) {
                    throw new ClosedChannelException();
                }
            }
            return false;
        } catch (ClosedSelectorException | CancelledKeyException e) {
            throw new IOException("Socket closed", e);
        }
    }

    private void awaitWithin(int operation, int timeoutMillis, String what) throws IOException {
        Duration bound = timeoutMillis > 0 ? Duration.ofMillis(timeoutMillis) : limit;
        if (!await(operation, System.nanoTime() + bound.toNanos(), false)) {
            SocketTimeoutException timeout =
                    new SocketTimeoutException(what + " timed out after " + bound.toMillis() + " ms");
            if (bound.compareTo(limit) >= 0) {
                expired = timeout;
                close();
            }
            throw timeout;
        }
    }

    private void requireInTime() throws IOException {
        SocketTimeoutException timeout = expired;
        if (timeout != null) {
            throw new IOException("Socket closed, since the peer took too long", timeout);
        }
    }

    @Override
    public void connect(SocketAddress endpoint) throws IOException {
        connect(endpoint, 0);
    }

    @Override
    public void connect(SocketAddress endpoint, int timeoutMillis) throws IOException {
        if (endpoint instanceof InetSocketAddress address && address.isUnresolved()) {
            throw new UnknownHostException(address.getHostName());
        }
        if (channel.connect(endpoint)) {
            return;
        }
        while (!channel.finishConnect()) {
            awaitWithin(SelectionKey.OP_CONNECT, timeoutMillis, "Connect");
        }
    }

    @Override
    public void bind(@Nullable SocketAddress local) throws IOException {
        channel.bind(local);
    }

    @Override
    public InputStream getInputStream() {
        return input;
    }

    @Override
    public OutputStream getOutputStream() {
        return output;
    }

    /** Closes at once, without waiting for the peer or for another thread. */
    @Override
    public void close() throws IOException {
        try {
            channel.close();
        } finally {
            selector.close();
        }
    }

    @Override
    public void setSoTimeout(int timeoutMillis) throws SocketException {
        if (isClosed()) {
            throw new SocketException("Socket closed");
        }
        readTimeoutMillis = timeoutMillis;
    }

    @Override
    public int getSoTimeout() {
        return readTimeoutMillis;
    }

    private final class Input extends InputStream {

        private final ByteBuffer buffer = ByteBuffer.allocate(READ_AHEAD_BYTES).flip();
        private boolean endOfStream;
        /** How many bytes may still be read before it's too much. */
        private long offered = LONGEST_ANSWER_BYTES;

        private boolean answering = true;
        /** How many bytes came unasked since a look found nothing. */
        private long unasked;

        private boolean hasBuffered() {
            return buffer.hasRemaining();
        }

        /** Reads what the peer has sent so far; the buffer stays empty if there is nothing. */
        private void fill() throws IOException {
            requireInTime();
            if (!endOfStream && !buffer.hasRemaining()) {
                buffer.clear();
                try {
                    endOfStream = channel.read(buffer) < 0;
                    if (!answering) {
                        unasked += buffer.position();
                    }
                } finally {
                    buffer.flip();
                }
            }
        }

        private void expectAnswer() {
            offered = LONGEST_ANSWER_BYTES;
            answering = true;
        }

        /** Whether the driver has had what it was offered, and should be told that there is no more. */
        private boolean isEnough() {
            return !answering && offered <= 0;
        }

        private void took(int bytes) throws IOException {
            offered -= bytes;
            if (offered < (answering ? 0 : -LONGEST_ANSWER_BYTES)) {
                ChannelSocket.this.close();
                throw new IOException("The server sent more than " + LONGEST_ANSWER_BYTES / 1024 / 1024
                        + " MiB before its answer, as when somebody floods the database with notifications");
            }
        }

        @Override
        public int available() throws IOException {
            if (isEnough()) {
                return 0;
            }
            fill();
            return buffer.remaining();
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] target, int offset, int length) throws IOException {
            if (length == 0) {
                return 0;
            }
            boolean looking = readTimeoutMillis == LOOKING_TIMEOUT_MILLIS;
            if (looking && isEnough()) {
                throw new SocketTimeoutException("Nothing more is offered for now");
            }
            fill();
            if (looking && !buffer.hasRemaining() && !endOfStream) {
                boolean amidBatch = unasked >= BYTES_OF_A_BATCH;
                unasked = 0;
                if (!amidBatch) {
                    throw new SocketTimeoutException("There is nothing to read now");
                }
            }
            while (!buffer.hasRemaining()) {
                if (endOfStream) {
                    return -1;
                }
                awaitWithin(SelectionKey.OP_READ, readTimeoutMillis, "Read");
                fill();
            }
            int count = Math.min(length, buffer.remaining());
            buffer.get(target, offset, count);
            took(count);
            return count;
        }

        @Override
        public void close() throws IOException {
            ChannelSocket.this.close();
        }
    }

    private final class Output extends OutputStream {

        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] source, int offset, int length) throws IOException {
            input.expectAnswer();
            ByteBuffer bytes = ByteBuffer.wrap(source, offset, length);
            while (bytes.hasRemaining()) {
                if (channel.write(bytes) == 0) {
                    awaitWithin(SelectionKey.OP_WRITE, 0, "Write");
                }
            }
        }

        @Override
        public void close() throws IOException {
            ChannelSocket.this.close();
        }
    }

    // What remains is the channel's own view of itself, which java.net.Socket wants to be asked for.

    @Override
    public SocketChannel getChannel() {
        return channel;
    }

    @Override
    public boolean isConnected() {
        return channel.isConnected();
    }

    @Override
    public boolean isBound() {
        return channel.socket().isBound();
    }

    @Override
    public boolean isClosed() {
        return !channel.isOpen();
    }

    @Override
    public boolean isInputShutdown() {
        return channel.socket().isInputShutdown();
    }

    @Override
    public boolean isOutputShutdown() {
        return channel.socket().isOutputShutdown();
    }

    @Override
    public void shutdownInput() throws IOException {
        channel.shutdownInput();
    }

    @Override
    public void shutdownOutput() throws IOException {
        channel.shutdownOutput();
    }

    @Override
    public @Nullable InetAddress getInetAddress() {
        return channel.socket().getInetAddress();
    }

    @Override
    public InetAddress getLocalAddress() {
        return channel.socket().getLocalAddress();
    }

    @Override
    public int getPort() {
        return channel.socket().getPort();
    }

    @Override
    public int getLocalPort() {
        return channel.socket().getLocalPort();
    }

    @Override
    public @Nullable SocketAddress getRemoteSocketAddress() {
        return channel.socket().getRemoteSocketAddress();
    }

    @Override
    public @Nullable SocketAddress getLocalSocketAddress() {
        return channel.socket().getLocalSocketAddress();
    }

    @Override
    public void setTcpNoDelay(boolean on) throws SocketException {
        channel.socket().setTcpNoDelay(on);
    }

    @Override
    public boolean getTcpNoDelay() throws SocketException {
        return channel.socket().getTcpNoDelay();
    }

    @Override
    public void setKeepAlive(boolean on) throws SocketException {
        channel.socket().setKeepAlive(on);
    }

    @Override
    public boolean getKeepAlive() throws SocketException {
        return channel.socket().getKeepAlive();
    }

    @Override
    public void setSoLinger(boolean on, int seconds) throws SocketException {
        channel.socket().setSoLinger(on, seconds);
    }

    @Override
    public int getSoLinger() throws SocketException {
        return channel.socket().getSoLinger();
    }

    @Override
    public void setSendBufferSize(int size) throws SocketException {
        channel.socket().setSendBufferSize(size);
    }

    @Override
    public int getSendBufferSize() throws SocketException {
        return channel.socket().getSendBufferSize();
    }

    @Override
    public void setReceiveBufferSize(int size) throws SocketException {
        channel.socket().setReceiveBufferSize(size);
    }

    @Override
    public int getReceiveBufferSize() throws SocketException {
        return channel.socket().getReceiveBufferSize();
    }

    @Override
    public String toString() {
        return "ChannelSocket[" + getRemoteSocketAddress() + "]";
    }
}
