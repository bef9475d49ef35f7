package dev.pgleader.example.lab;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.openqa.selenium.By;
import org.openqa.selenium.JavascriptExecutor;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.logging.LogEntry;
import org.openqa.selenium.logging.LogType;
import org.openqa.selenium.logging.LoggingPreferences;

/** A headless Chromium with one page. */
final class Browser implements AutoCloseable {

    private static final Path CHROMIUM = Path.of("/usr/bin/chromium");
    private static final Path DRIVER = Path.of("/usr/bin/chromedriver");
    private static final Path SCREENSHOTS = Path.of("target", "screenshots");

    // It warns that it doesn't know this Chromium's own protocol, of which nothing is used that changes. Kept here,
    // since a
    // logger that nobody holds forgets its level.
    private static final Logger PROTOCOL_VERSIONS = Logger.getLogger("org.openqa.selenium.devtools.CdpVersionFinder");

    private final ChromeDriver driver;

    Browser() {
        PROTOCOL_VERSIONS.setLevel(Level.OFF);
        LoggingPreferences logging = new LoggingPreferences();
        logging.enable(LogType.BROWSER, Level.ALL);
        ChromeOptions options = new ChromeOptions();
        options.setBinary(CHROMIUM.toFile());
        options.setCapability("goog:loggingPrefs", logging);
        // Containers run the tests as root, where Chromium has no sandbox of its own, and give it little shared memory.
        options.addArguments(
                "--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage");
        ChromeDriverService service = new ChromeDriverService.Builder()
                .usingDriverExecutable(DRIVER.toFile())
                .usingAnyFreePort()
                .withLogFile(new File("target", "chromedriver.log"))
                .build();
        driver = new ChromeDriver(service, options);
    }

    static boolean isInstalled() {
        return Files.isExecutable(CHROMIUM) && Files.isExecutable(DRIVER);
    }

    void size(int width, int height) {
        driver.executeCdpCommand(
                "Emulation.setDeviceMetricsOverride",
                Map.of("width", width, "height", height, "deviceScaleFactor", 1, "mobile", width < 600));
    }

    void colours(String scheme) {
        driver.executeCdpCommand(
                "Emulation.setEmulatedMedia",
                Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
    }

    void open(String address) {
        driver.get(address);
    }

    String text(String css) {
        return driver.findElement(By.cssSelector(css)).getText();
    }

    List<WebElement> all(String css) {
        return driver.findElements(By.cssSelector(css));
    }

    /** Presses the button of a node, by what a screen reader calls it. */
    void press(String label) {
        press(By.cssSelector("button[aria-label='" + label + "']"));
    }

    /** Presses a button that concerns no single node. */
    void pressButton(String text) {
        press(By.xpath("//button[normalize-space()='" + text + "']"));
    }

    private void press(By place) {
        WebElement button = driver.findElement(place);
        run("arguments[0].scrollIntoView({block: 'center'})", button);
        button.click();
    }

    Object run(String script, Object... arguments) {
        return ((JavascriptExecutor) driver).executeScript(script, arguments);
    }

    /** What the browser complained of: errors of scripts, and what the content security policy forbade. */
    List<String> complaints() {
        return driver.manage().logs().get(LogType.BROWSER).getAll().stream()
                .map(LogEntry::toString)
                .toList();
    }

    /** Keeps a picture of the whole page under {@code target/screenshots}. */
    void screenshot(String name) throws IOException {
        run("window.scrollTo(0, 0)");
        Map<String, Object> picture = driver.executeCdpCommand(
                "Page.captureScreenshot", Map.of("format", "png", "captureBeyondViewport", true));
        Files.createDirectories(SCREENSHOTS);
        Files.write(SCREENSHOTS.resolve(name + ".png"), Base64.getDecoder().decode((String) picture.get("data")));
    }

    @Override
    public void close() {
        driver.quit();
    }
}
