package dev.pgleader.testkit;

import dev.pgleader.testkit.TcpProxy.Flow;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Function;

/**
 * One direction of a proxied connection: what was read from one socket and is still to be written to the other. The end
 * of the stream and a reset travel in the same queue as the data. For the thread of the proxy only.
 */
final class ProxyLane {

    /** What a lane tells its connection. */
    interface Events {
        /** Nothing more will be delivered: the stream's end has been, or the receiver is gone. */
        void finished();

        /** A reset has been delivered to the receiver's side. */
        void resetDelivered();

        /** The receiver's socket is broken, which its own side of the network reports to the other lane. */
        void receiverLost();
    }

    private enum Kind {
        DATA,
        END,
        RESET
    }

    private record Parcel(Kind kind, ByteBuffer bytes, long dueNanos) {}

    private static final ByteBuffer NO_BYTES = ByteBuffer.allocate(0);
    private static final int QUEUE_LIMIT = 1 << 18;

    private final SocketChannel from;
    private final SocketChannel to;
    private final Events events;
    private final Function<byte[], Duration> onArrival;
    private final ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
    private final Deque<Parcel> queue = new ArrayDeque<>();
    private Flow flow;
    private Duration delay;
    private long queuedBytes;
    private boolean sourceEnded;
    private boolean finished;

    /**
     * @param onArrival looks at each chunk of data before it is treated, and returns how much later it is to be
     * delivered
     */
    ProxyLane(
            SocketChannel from,
            SocketChannel to,
            Flow flow,
            Duration delay,
            Events events,
            Function<byte[], Duration> onArrival) {
        this.from = from;
        this.to = to;
        this.flow = flow;
        this.delay = delay;
        this.events = events;
        this.onArrival = onArrival;
    }

    void flow(Flow changed) {
        flow = changed;
        if (flow == Flow.SWALLOW) {
            clear();
        }
    }

    void delay(Duration changed) {
        delay = changed;
    }

    boolean isFinished() {
        return finished;
    }

    boolean wantsToRead() {
        return !sourceEnded && flow != Flow.STALL && (flow == Flow.HOLD || queuedBytes < QUEUE_LIMIT);
    }

    /** Tells whether there is something that the receiver is to get as soon as its socket takes it. */
    boolean hasDeliverable(long nowNanos) {
        Parcel next = queue.peek();
        return flow == Flow.PASS && next != null && next.dueNanos() - nowNanos <= 0 && to.isConnected();
    }

    /**
     * Returns in how many nanoseconds there will be something to deliver, {@link Long#MAX_VALUE} if that can't be told.
     */
    long nanosUntilDue(long nowNanos) {
        Parcel next = queue.peek();
        if (flow != Flow.PASS || next == null || next.dueNanos() - nowNanos <= 0) {
            return Long.MAX_VALUE;
        }
        return next.dueNanos() - nowNanos;
    }

    void read() {
        if (!wantsToRead()) {
            return;
        }
        buffer.clear();
        int count;
        try {
            count = from.read(buffer);
        } catch (IOException e) {
            sourceReset();
            return;
        }
        if (count < 0) {
            sourceEnded = true;
            enqueue(Kind.END, NO_BYTES, delay);
        } else if (count > 0) {
            byte[] bytes = new byte[count];
            buffer.flip().get(bytes);
            Duration extra = onArrival.apply(bytes);
            enqueue(Kind.DATA, ByteBuffer.wrap(bytes), delay.plus(extra));
        }
    }

    /** The sender's side is broken: a reset is on its way to the receiver. */
    void sourceReset() {
        if (!sourceEnded) {
            sourceEnded = true;
            enqueue(Kind.RESET, NO_BYTES, delay);
        }
    }

    void deliver() {
        while (hasDeliverable(System.nanoTime())) {
            Parcel next = queue.getFirst();
            try {
                switch (next.kind()) {
                    case DATA -> {
                        int written = to.write(next.bytes());
                        queuedBytes -= written;
                        if (next.bytes().hasRemaining()) {
                            return;
                        }
                    }
                    case END -> {
                        to.shutdownOutput();
                        finished = true;
                    }
                    case RESET -> {
                        clear();
                        events.resetDelivered();
                        return;
                    }
                }
                queue.removeFirst();
                if (finished) {
                    events.finished();
                }
            } catch (IOException e) {
                clear();
                finished = true;
                events.receiverLost();
                events.finished();
            }
        }
    }

    private void enqueue(Kind kind, ByteBuffer bytes, Duration later) {
        if (flow == Flow.SWALLOW) {
            return;
        }
        long due = System.nanoTime() + later.toNanos();
        Parcel last = queue.peekLast();
        if (last != null && last.dueNanos() - due > 0) {
            due = last.dueNanos();
        }
        queue.add(new Parcel(kind, bytes, due));
        queuedBytes += bytes.remaining();
    }

    private void clear() {
        queue.clear();
        queuedBytes = 0;
    }
}
