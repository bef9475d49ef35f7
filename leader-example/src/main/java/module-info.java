/** Examples and the failover demo of pg-leader. */
@org.jspecify.annotations.NullMarked
module dev.pgleader.example {
    requires dev.pgleader;
    requires embedded.postgres;
    requires static org.jspecify;
}
