package dev.pgleader.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The method runs only where this instance is the leader; elsewhere the call returns at once and does nothing.
 *
 * <p>Works on methods of Spring beans, among them {@code @Scheduled} ones, directly or through an annotation that has this
 * one, and on methods of interfaces. On a class it holds for all its methods but private and static ones, on an interface for
 * those that the interface declares.
 *
 * <table>
 * <caption>What a skipped call returns</caption>
 * <tr><th>Return type</th><th>Value</th></tr>
 * <tr><td>{@code void}, any other class</td><td>nothing, or {@code null}</td></tr>
 * <tr><td>{@code Optional}, {@code OptionalInt}, {@code OptionalLong}, {@code OptionalDouble}</td><td>empty</td></tr>
 * <tr><td>{@code Future}, {@code CompletionStage}, {@code CompletableFuture}</td><td>completed with {@code null}</td></tr>
 * <tr><td>{@code Iterable}, {@code Collection}, {@code List}, {@code Set}, {@code Map}, {@code Stream}</td>
 *     <td>empty</td></tr>
 * <tr><td>{@code Mono}, {@code Flux}, {@code Publisher}</td><td>empty; who leads is asked at each subscription, and
 *     only then the method is called</td></tr>
 * <tr><td>a primitive</td><td>refused when the application starts</td></tr>
 * </table>
 *
 * <p>It works through a proxy. Where that can't work, the application doesn't start: a private, static or final method, a final
 * class, a bean that is created before proxies are, a method that the container calls on the bean itself ({@code @PostConstruct},
 * {@code @Autowired}, a destroy method), or once only, before anybody can lead. What can't be noticed is a method that an object
 * calls on itself: that call runs everywhere.
 *
 * <p>Whether this instance leads is asked once, when the call begins. From then on the call belongs to the term: when leadership is
 * given up, as at a shutdown, the lock stays taken until the call has ended, at most for the revoke timeout; a {@code
 * CompletionStage} or {@code Publisher} that it returns is waited for, too. Other instances begin only then. When leadership is lost
 * there is nothing to hold: long work asks {@link dev.pgleader.LeaderElector#isLeader()} now and then, or has a parameter of type
 * {@link dev.pgleader.Leadership}, for which callers pass {@code null}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.TYPE, ElementType.ANNOTATION_TYPE})
public @interface LeaderOnly {

    /**
     * The name of the election; may have placeholders. Not needed where the application takes part in one election, or one
     * of them is the election of {@code pgleader.key}.
     */
    String value() default "";

    /** What to do with a call in flight when the term ends. */
    OnRevoked onRevoked() default OnRevoked.AS_CONFIGURED;

    /** What becomes of a call when its term ends before it does. */
    enum OnRevoked {
        /** What {@code pgleader.leader-only.on-revoked} says. */
        AS_CONFIGURED,
        /** It goes on to its end. */
        LET_END,
        /** The thread that runs it is interrupted, once; not what it has begun elsewhere. */
        INTERRUPT
    }
}
