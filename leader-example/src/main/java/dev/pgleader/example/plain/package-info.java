/** A service without a framework that elects a leader. */
package dev.pgleader.example.plain;
