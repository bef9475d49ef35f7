package dev.pgleader.example.lab.web;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.supervisor.LabFailure;
import dev.pgleader.example.lab.supervisor.LabRefusal;
import dev.pgleader.example.lab.supervisor.LabSnapshot;
import dev.pgleader.example.lab.supervisor.Supervisor;
import java.time.Duration;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** What the buttons of the page ask for. Each answer comes when it is done. */
@RestController
@RequestMapping("/api")
final class LabController {

    /** Why something wasn't done, or what was. */
    record Message(String message) {}

    /** The settings as the page's form has them. */
    record SettingsForm(long leaseMillis, long retryMillis, long jobMillis, AcquisitionMode mode) {
        LabSettings toSettings() {
            return new LabSettings(
                    Duration.ofMillis(leaseMillis), Duration.ofMillis(retryMillis), Duration.ofMillis(jobMillis), mode);
        }
    }

    private final Supervisor supervisor;

    LabController(Supervisor supervisor) {
        this.supervisor = supervisor;
    }

    @GetMapping("/state")
    LabSnapshot state() {
        return supervisor.snapshot();
    }

    @PostMapping("/nodes")
    Message addNode() {
        return new Message(supervisor.addNode() + " was added");
    }

    @PostMapping("/nodes/{node}/kill")
    Message kill(@PathVariable String node) {
        supervisor.kill(node);
        return new Message(node + " was killed");
    }

    @PostMapping("/nodes/{node}/restart")
    Message restart(@PathVariable String node) {
        supervisor.restart(node);
        return new Message(node + " was restarted");
    }

    @PostMapping("/nodes/{node}/pause")
    Message pause(@PathVariable String node) {
        supervisor.pause(node);
        return new Message(node + " is paused");
    }

    @PostMapping("/nodes/{node}/pause-in-job")
    Message pauseInJob(@PathVariable String node) {
        supervisor.pauseInJob(node);
        return new Message(node + " is paused in the middle of a job");
    }

    @PostMapping("/nodes/{node}/continue")
    Message resume(@PathVariable String node) {
        supervisor.resume(node);
        return new Message(node + " goes on");
    }

    @PostMapping("/nodes/{node}/suspend")
    Message suspend(@PathVariable String node) {
        supervisor.suspend(node);
        return new Message(node + " is suspended");
    }

    @PostMapping("/nodes/{node}/wake-up")
    Message wakeUp(@PathVariable String node) {
        supervisor.wakeUp(node);
        return new Message(node + " is awake");
    }

    @PostMapping("/nodes/{node}/cut")
    Message cut(@PathVariable String node) {
        supervisor.cut(node);
        return new Message(node + " is cut off");
    }

    @PostMapping("/nodes/{node}/heal")
    Message heal(@PathVariable String node) {
        supervisor.heal(node);
        return new Message(node + " reaches PostgreSQL again");
    }

    @PostMapping("/nodes/{node}/terminate-session")
    Message terminateSession(@PathVariable String node) {
        supervisor.terminateSession(node);
        return new Message("PostgreSQL has ended the session of " + node);
    }

    @PostMapping("/nodes/{node}/resign")
    Message resign(@PathVariable String node) {
        supervisor.resign(node);
        return new Message(node + " resigns");
    }

    @PostMapping("/forged-notices")
    Message forgeNotices() {
        return new Message(supervisor.forgeNotices());
    }

    @PostMapping("/rolling-deployment")
    Message rollOut() {
        return new Message(supervisor.rollOut());
    }

    @PostMapping("/server/restart")
    Message restartServer() {
        supervisor.restartServer();
        return new Message("PostgreSQL was restarted");
    }

    @PostMapping("/lab/restart")
    Message restartLab(@RequestBody SettingsForm form) {
        supervisor.restart(form.toSettings());
        return new Message("The lab was restarted");
    }

    @ExceptionHandler
    @ResponseStatus(HttpStatus.CONFLICT)
    Message refused(LabRefusal refusal) {
        return new Message(String.valueOf(refusal.getMessage()));
    }

    @ExceptionHandler
    @ResponseStatus(HttpStatus.BAD_REQUEST)
    Message wrong(IllegalArgumentException problem) {
        return new Message(String.valueOf(problem.getMessage()));
    }

    @ExceptionHandler
    @ResponseStatus(HttpStatus.INTERNAL_SERVER_ERROR)
    Message failed(LabFailure failure) {
        return new Message(String.valueOf(failure.getMessage()));
    }
}
