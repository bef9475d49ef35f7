package dev.pgleader;

import java.util.concurrent.Executor;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The user's word on whether to compete. It's asked anew for each campaign, on the callback executor; an answer to an earlier
 * campaign counts for nothing. Of the election thread.
 */
final class CampaignCondition {

    private static final Log LOG = Log.of(CampaignCondition.class);

    private static final class Question {
        volatile @Nullable Boolean answer;
    }

    private final String electorName;
    private final @Nullable BooleanSupplier condition;
    private final Executor executor;
    private final Runnable onAnswer;
    private @Nullable Question asked;
    private boolean holds;

    /**
     * A condition that has not been asked yet.
     *
     * @param condition null if there is none, so that it always holds
     * @param onAnswer called on any thread when an answer has come
     */
    CampaignCondition(String electorName, @Nullable BooleanSupplier condition, Executor executor, Runnable onAnswer) {
        this.electorName = electorName;
        this.condition = condition;
        this.executor = executor;
        this.onAnswer = onAnswer;
        this.holds = condition == null;
    }

    /** Whether the last answer of this campaign was yes. */
    boolean holds() {
        return holds;
    }

    /** Asks, unless the answer to the last question is still to come. */
    void ask() {
        if (condition == null || asked != null) {
            return;
        }
        Question question = new Question();
        BooleanSupplier user = condition;
        try {
            executor.execute(() -> {
                question.answer = ask(user);
                onAnswer.run();
            });
            asked = question;
        } catch (Throwable e) {
            LOG.warn("[{}] The campaign condition can't be asked now", electorName, e);
        }
    }

    private boolean ask(BooleanSupplier user) {
        try {
            return user.getAsBoolean();
        } catch (Throwable e) {
            LOG.error("[{}] The campaign condition failed, so this instance doesn't compete", electorName, e);
            return false;
        }
    }

    /** Takes up an answer that has come; returns whether it changed from no to yes. */
    boolean takeAnswer() {
        Boolean answer = asked == null ? null : asked.answer;
        if (answer == null) {
            return false;
        }
        asked = null;
        boolean turned = answer && !holds;
        holds = answer;
        return turned;
    }

    /** The campaign is over: the next one asks anew. */
    void forget() {
        if (condition != null) {
            asked = null;
            holds = false;
        }
    }
}
