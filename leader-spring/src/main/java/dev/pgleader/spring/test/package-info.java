/** Tests of applications with elections: a test grants and revokes leadership by hand, without a database. */
@NullMarked
package dev.pgleader.spring.test;

import org.jspecify.annotations.NullMarked;
