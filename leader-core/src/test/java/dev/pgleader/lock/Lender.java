package dev.pgleader.lock;

import com.alibaba.druid.pool.DruidDataSource;
import com.mchange.v2.c3p0.ComboPooledDataSource;
import com.p6spy.engine.spy.P6DataSource;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.agroal.api.AgroalDataSource;
import io.agroal.api.configuration.supplier.AgroalDataSourceConfigurationSupplier;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.instrumentation.jdbc.datasource.JdbcTelemetry;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.jar.JarFile;
import javax.sql.DataSource;
import net.ttddyy.dsproxy.support.ProxyDataSourceBuilder;
import org.apache.commons.dbcp2.BasicDataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.LazyConnectionDataSourceProxy;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.datasource.lookup.AbstractRoutingDataSource;

/** Pools as they come, with a size and a patience and no other setting, and wrappers as they come around one of them. */
@SuppressWarnings("ImmutableEnumChecker") // Its functions have no state.
enum Lender {
    HIKARI(Lender::hikari),
    AGROAL(Lender::agroal),
    C3P0(Lender::c3p0),
    DBCP2(Lender::dbcp2),
    TOMCAT(Lender::tomcat),
    TOMCAT_BEFORE_11_0_22(Lender::oldTomcat),
    DRUID(Lender::druid),
    NO_POOL(Lender::noPool),
    LAZY_PROXY(LazyConnectionDataSourceProxy::new),
    TRANSACTION_AWARE_PROXY(TransactionAwareDataSourceProxy::new),
    DELEGATING(DelegatingDataSource::new),
    ROUTING(Lender::routing),
    DATASOURCE_PROXY(inner -> ProxyDataSourceBuilder.create(inner).build()),
    P6SPY(Lender::p6spy),
    OPENTELEMETRY(inner -> JdbcTelemetry.create(OpenTelemetry.noop()).wrap(inner));

    /** How long a pool lets somebody wait for a connection. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    /** Agroal doesn't wake who waits for a connection when one is flushed: it goes on after this. */
    private static final Duration AGROAL_PATIENCE = Duration.ofSeconds(2);

    /** A DataSource and how to end it. */
    record Open(DataSource dataSource, End end) implements AutoCloseable {
        @Override
        public void close() throws SQLException, IOException, ReflectiveOperationException {
            end.end();
        }
    }

    @FunctionalInterface
    interface End {
        void end() throws SQLException, IOException, ReflectiveOperationException;
    }

    @FunctionalInterface
    interface Pool {
        Open open(String url, int size) throws Exception;
    }

    private final Pool pool;
    private final @Nullable UnaryOperator<DataSource> wrapper;

    Lender(Pool pool) {
        this.pool = pool;
        this.wrapper = null;
    }

    Lender(UnaryOperator<DataSource> wrapper) {
        this.pool = Lender::hikari;
        this.wrapper = wrapper;
    }

    /** One of each kind, or with {@code -Dlender.all=true} all of them. */
    static List<Lender> ofThisRun() {
        return Boolean.getBoolean("lender.all")
                ? List.of(values())
                : List.of(HIKARI, AGROAL, DBCP2, NO_POOL, TRANSACTION_AWARE_PROXY, P6SPY);
    }

    boolean isWrapper() {
        return wrapper != null;
    }

    /** @param url with user and password */
    Open open(String url, int size) throws Exception {
        return around(this, url, size);
    }

    /** This wrapper around another pool. */
    Open around(Lender other, String url, int size) throws Exception {
        Open inner = other.pool.open(url, size);
        return wrapper == null ? inner : new Open(wrapper.apply(inner.dataSource()), inner.end());
    }

    private static Open hikari(String url, int size) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setMaximumPoolSize(size);
        config.setConnectionTimeout(PATIENCE.toMillis());
        HikariDataSource pool = new HikariDataSource(config);
        return new Open(pool, pool::close);
    }

    private static Open agroal(String url, int size) throws Exception {
        AgroalDataSource pool = AgroalDataSource.from(new AgroalDataSourceConfigurationSupplier()
                .connectionPoolConfiguration(config -> config.maxSize(size)
                        .acquisitionTimeout(AGROAL_PATIENCE)
                        .connectionFactoryConfiguration(factory -> factory.jdbcUrl(url))));
        return new Open(pool, pool::close);
    }

    private static Open c3p0(String url, int size) {
        ComboPooledDataSource pool = new ComboPooledDataSource();
        pool.setJdbcUrl(url);
        pool.setInitialPoolSize(1);
        pool.setMinPoolSize(1);
        pool.setMaxPoolSize(size);
        pool.setCheckoutTimeout(Math.toIntExact(PATIENCE.toMillis()));
        return new Open(pool, pool::close);
    }

    private static Open dbcp2(String url, int size) {
        BasicDataSource pool = new BasicDataSource();
        pool.setUrl(url);
        pool.setMaxTotal(size);
        pool.setMaxWait(PATIENCE);
        return new Open(pool, pool::close);
    }

    private static Open tomcat(String url, int size) {
        var pool = new org.apache.tomcat.jdbc.pool.DataSource();
        pool.setUrl(url);
        pool.setDriverClassName("org.postgresql.Driver");
        pool.setInitialSize(1);
        pool.setMinIdle(1);
        pool.setMaxIdle(size);
        pool.setMaxActive(size);
        pool.setMaxWait(Math.toIntExact(PATIENCE.toMillis()));
        return new Open(pool, pool::close);
    }

    /** By its own class loader, since only one version can be on the class path. */
    private static Open oldTomcat(String url, int size) throws Exception {
        URL jar = Path.of("target", "old-pools", "tomcat-jdbc.jar").toUri().toURL();
        URLClassLoader loader = new ItsOwnFirst(jar);
        Object pool = loader.loadClass("org.apache.tomcat.jdbc.pool.DataSource")
                .getConstructor()
                .newInstance();
        for (Map.Entry<String, Object> setting : Map.<String, Object>of(
                        "setUrl", url, "setDriverClassName", "org.postgresql.Driver")
                .entrySet()) {
            pool.getClass().getMethod(setting.getKey(), String.class).invoke(pool, setting.getValue());
        }
        for (Map.Entry<String, Integer> setting : Map.of(
                        "setInitialSize",
                        1,
                        "setMinIdle",
                        1,
                        "setMaxIdle",
                        size,
                        "setMaxActive",
                        size,
                        "setMaxWait",
                        Math.toIntExact(PATIENCE.toMillis()))
                .entrySet()) {
            pool.getClass().getMethod(setting.getKey(), int.class).invoke(pool, setting.getValue());
        }
        return new Open((DataSource) pool, () -> {
            pool.getClass().getMethod("close").invoke(pool);
            loader.close();
        });
    }

    private static final class ItsOwnFirst extends URLClassLoader {

        ItsOwnFirst(URL jar) {
            super(new URL[] {jar}, Lender.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                if (!name.startsWith("org.apache.tomcat.jdbc.")) {
                    return super.loadClass(name, resolve);
                }
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? findClass(name) : loaded;
            }
        }
    }

    private static Open druid(String url, int size) {
        DruidDataSource pool = new DruidDataSource();
        pool.setUrl(url);
        pool.setMaxActive(size);
        pool.setMaxWait(PATIENCE.toMillis());
        return new Open(pool, pool::close);
    }

    private static Open noPool(String url, int size) {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(url);
        return new Open(dataSource, () -> {});
    }

    static DataSource routing(DataSource inner) {
        AbstractRoutingDataSource routing = new AbstractRoutingDataSource() {
            @Override
            protected Object determineCurrentLookupKey() {
                return "only";
            }
        };
        routing.setTargetDataSources(Map.of("only", inner));
        routing.afterPropertiesSet();
        return routing;
    }

    private static DataSource p6spy(DataSource inner) {
        // Else it writes to a file in the working directory.
        System.setProperty("p6spy.config.modulelist", "com.p6spy.engine.spy.P6SpyFactory");
        System.setProperty("p6spy.config.appender", "com.p6spy.engine.spy.appender.Slf4JLogger");
        return new P6DataSource(inner);
    }

    /** The version of Tomcat's pool that is loaded by itself. */
    static String oldTomcatVersion() throws IOException {
        try (var jar =
                new JarFile(Path.of("target", "old-pools", "tomcat-jdbc.jar").toFile())) {
            return jar.getManifest().getMainAttributes().getValue("Implementation-Version");
        }
    }
}
