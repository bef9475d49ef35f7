/**
 * Leader election for Spring Boot services: with this library and a {@code spring.datasource} the service has a leader.
 *
 * <p>{@link dev.pgleader.spring.LeaderAutoConfiguration} tells which beans there are, {@link
 * dev.pgleader.spring.LeaderProperties} how they are configured. What leadership is worth, and what it isn't, stands at
 * {@link dev.pgleader the core}.
 */
@NullMarked
package dev.pgleader.spring;

import org.jspecify.annotations.NullMarked;
