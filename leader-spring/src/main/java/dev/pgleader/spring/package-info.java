/** The Spring Boot integration, which isn't written yet. */
package dev.pgleader.spring;
