package dev.pgleader.example.service;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.springframework.beans.factory.config.YamlMapFactoryBean;
import org.springframework.boot.json.JsonParserFactory;
import org.springframework.core.io.FileSystemResource;

/**
 * A file of the deployment, or a part of it.
 *
 * @param place where it is, for messages
 * @param value maps, lists and scalars
 */
record DeployFile(String place, Object value) {

    static final Path DIRECTORY = Path.of("deploy");

    /** One document; duplicate keys are refused. */
    static DeployFile yaml(String path) {
        YamlMapFactoryBean yaml = new YamlMapFactoryBean();
        yaml.setResources(new FileSystemResource(DIRECTORY.resolve(path)));
        return new DeployFile(path, Objects.requireNonNull(yaml.getObject()));
    }

    static DeployFile json(String path) throws IOException {
        return new DeployFile(
                path, JsonParserFactory.getJsonParser().parseMap(Files.readString(DIRECTORY.resolve(path))));
    }

    /** The part below these keys of maps and indexes of lists. */
    DeployFile at(Object... steps) {
        DeployFile part = this;
        for (Object step : steps) {
            Object found = step instanceof Integer index
                    ? part.list().get(index).value()
                    : part.map().get(step);
            if (found == null) {
                throw new AssertionError(part.place + " has no " + step + " but " + part.value);
            }
            part = new DeployFile(part.place + "/" + step, found);
        }
        return part;
    }

    boolean has(String key) {
        return map().containsKey(key);
    }

    Map<?, ?> map() {
        if (value instanceof Map<?, ?> map) {
            return map;
        }
        throw new AssertionError(place + " is no map but " + value);
    }

    List<DeployFile> list() {
        if (value instanceof List<?> list) {
            return list.stream()
                    .map(element -> new DeployFile(place + "[]", element))
                    .toList();
        }
        throw new AssertionError(place + " is no list but " + value);
    }

    String text() {
        return value.toString();
    }

    int number() {
        return Integer.parseInt(text());
    }
}
