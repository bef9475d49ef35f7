/** Tests of applications with elections: a test grants and revokes leadership by hand, without a database. In a jar of its own, with the classifier {@code test}. */
@NullMarked
package dev.pgleader.spring.test;

import org.jspecify.annotations.NullMarked;
