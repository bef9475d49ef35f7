/** Examples, the failover demo and the lab of pg-leader. */
@org.jspecify.annotations.NullMarked
module dev.pgleader.example {
    requires dev.pgleader;
    requires embedded.postgres;
    requires jakarta.annotation;
    requires java.sql;
    requires org.apache.tomcat.embed.core;
    requires org.postgresql.jdbc;
    requires spring.beans;
    requires spring.boot;
    requires spring.boot.autoconfigure;
    requires spring.boot.web.server;
    requires spring.context;
    requires spring.core;
    requires spring.web;
    requires spring.webmvc;
    requires static org.jspecify;
}
