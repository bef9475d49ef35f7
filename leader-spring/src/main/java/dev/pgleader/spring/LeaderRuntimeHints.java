package dev.pgleader.spring;

import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.aot.hint.TypeReference;

/** What a native image must know beyond what Spring finds out by itself. */
final class LeaderRuntimeHints implements RuntimeHintsRegistrar {

    /** The driver makes it by its name. */
    static final TypeReference SOCKET_FACTORY = TypeReference.of("dev.pgleader.lock.socket.ChannelSocketFactory");

    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader classLoader) {
        hints.reflection().registerType(SOCKET_FACTORY, MemberCategory.INVOKE_PUBLIC_CONSTRUCTORS);
    }
}
