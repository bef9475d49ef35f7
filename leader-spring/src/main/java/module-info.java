/** Spring Boot integration of pg-leader. */
@org.jspecify.annotations.NullMarked
module dev.pgleader.spring {
    requires transitive dev.pgleader;
    requires static org.jspecify;

    exports dev.pgleader.spring;
}
