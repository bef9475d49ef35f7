package dev.pgleader.example.lab.web;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpHeaders;
import org.springframework.stereotype.Component;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * Lets in only the lab's own page. The page can kill processes, and any page that this machine's browser shows can send
 * requests to a loopback address: by its name, which the {@code Origin} tells, or by a name of its own that it had the name
 * server point here, which the {@code Host} tells.
 */
@Component
final class SameOriginFilter extends OncePerRequestFilter {

    private static final Set<String> READING = Set.of("GET", "HEAD");

    @Override
    protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        String host = request.getHeader(HttpHeaders.HOST);
        if (!isOurs(host, request.getLocalPort())) {
            refuse(response, "This is not a host name of the lab: " + host);
            return;
        }
        String origin = request.getHeader(HttpHeaders.ORIGIN);
        boolean reads = READING.contains(request.getMethod());
        boolean allowed = origin == null ? reads : origin.equals("http://" + host);
        if (!allowed) {
            refuse(response, "This is not the origin of the lab's page: " + origin);
            return;
        }
        response.setHeader("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'");
        response.setHeader("X-Content-Type-Options", "nosniff");
        response.setHeader("Referrer-Policy", "no-referrer");
        response.setHeader("Cross-Origin-Resource-Policy", "same-origin");
        response.setHeader(HttpHeaders.CACHE_CONTROL, "no-cache");
        chain.doFilter(request, response);
    }

    private static boolean isOurs(@Nullable String host, int port) {
        return ("127.0.0.1:" + port).equals(host) || ("localhost:" + port).equals(host);
    }

    private static void refuse(HttpServletResponse response, String message) throws IOException {
        response.setStatus(HttpServletResponse.SC_FORBIDDEN);
        response.setContentType("text/plain;charset=UTF-8");
        response.getWriter().println(message);
    }
}
