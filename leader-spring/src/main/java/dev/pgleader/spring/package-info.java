/** Spring Boot integration. */
package dev.pgleader.spring;
