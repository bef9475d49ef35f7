@NullMarked
package dev.pgleader.lock;

import org.jspecify.annotations.NullMarked;
