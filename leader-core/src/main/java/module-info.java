/** Leader election for Java services on PostgreSQL. */
@org.jspecify.annotations.NullMarked
module dev.pgleader {
    requires transitive java.sql;
    requires dev.failsafe.core;
    requires org.postgresql.jdbc;
    requires org.slf4j;
    requires static com.zaxxer.hikari;
    requires static micrometer.core;
    requires static org.jspecify;
    requires static spring.jdbc;
    requires static spring.tx;

    exports dev.pgleader;
    exports dev.pgleader.lock;
    exports dev.pgleader.micrometer;
    exports dev.pgleader.lock.socket to
            org.postgresql.jdbc;
}
