package dev.pgleader.spring;

import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.util.ClassUtils;

/** Lets a native image call the methods of beans that have {@link LeaderOnly} at one of them. */
final class LeaderOnlyHints implements BeanRegistrationAotProcessor {

    private final LeaderOnlyMethods methods = new LeaderOnlyMethods();

    @Override
    public @Nullable BeanRegistrationAotContribution processAheadOfTime(RegisteredBean bean) {
        Class<?> type = ClassUtils.getUserClass(bean.getBeanClass());
        if (methods.in(type).isEmpty()) {
            return null;
        }
        return (context, code) -> {
            var reflection = context.getRuntimeHints().reflection();
            for (Class<?> each = type; each != null && each != Object.class; each = each.getSuperclass()) {
                reflection.registerType(each, MemberCategory.INVOKE_DECLARED_METHODS);
            }
            for (Class<?> each : ClassUtils.getAllInterfacesForClass(type)) {
                reflection.registerType(each, MemberCategory.INVOKE_DECLARED_METHODS);
            }
        };
    }
}
