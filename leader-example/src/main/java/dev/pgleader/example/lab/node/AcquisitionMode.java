package dev.pgleader.example.lab.node;

/** How a candidate gets the lock. */
public enum AcquisitionMode {
    /** It tries again and again, and is woken when a leader resigns. */
    POLL
}
