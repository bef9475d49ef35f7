package dev.pgleader.example.lab.web;

import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.Resource;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** The project's documents that the page links to, as text: a browser would save a file of another type. */
@RestController
final class DocumentController {

    private static final String DIRECTORY = "dev/pgleader/example/lab/docs/";

    @GetMapping(path = "/docs/{name:[a-z-]+}.md", produces = "text/plain;charset=UTF-8")
    Resource document(@PathVariable String name) {
        Resource document = new ClassPathResource(DIRECTORY + name + ".md");
        if (!document.exists()) {
            throw new ResponseStatusException(HttpStatus.NOT_FOUND, "There is no document " + name);
        }
        return document;
    }
}
