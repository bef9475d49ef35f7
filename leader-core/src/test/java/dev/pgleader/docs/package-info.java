/** The documentation as a subject of tests, and the code that it shows. */
package dev.pgleader.docs;
