package dev.pgleader;

/** Throws what nobody declares, as Kotlin does, and Java by a trick. */
final class Sneaky {

    private Sneaky() {}

    /** Never returns; what it's declared to return lets a caller end its method with {@code throw}. */
    static RuntimeException thrown(Throwable any) {
        throw Sneaky.<RuntimeException>undeclared(any);
    }

    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"}) // That is the trick.
    private static <E extends Throwable> E undeclared(Throwable any) throws E {
        throw (E) any;
    }
}
