/** Examples. */
package dev.pgleader.example;
