"""One Batch job as processes of this machine: attempts, retries, timeout, memory limit, secrets, logs, events.

Sources: "Job states", "Automated job retries", "Job timeouts" and "Specifying sensitive data" of the AWS Batch user
guide, API_JobDetail of its API reference, "Stopping an Amazon ECS task". moto 5.2.5 runs jobs in Docker only, once,
whatever the retry strategy, without secrets, memory limit or events, and logs to one fixed group (`batch/models.py`
Job.run). Unlike AWS, a job starts at once: there is no queueing by maxvCpus and no image; the clone and its
interpreter stand for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import uuid
from typing import IO, Any

from moto.batch.models import Job
from moto.logs.exceptions import ResourceNotFoundException

from sandbox import batch_rules, processes, secret_values, surroundings

STOP_TIMEOUT_SECONDS = 5  # between SIGTERM and SIGKILL; AWS waits 30 s
DEFAULT_LOG_GROUP = "/aws/batch/job"
FAILED_TO_START = "Task failed to start"
SHOWN_OF_CONTAINER = (
    "image", "command", "jobRoleArn", "executionRoleArn", "volumes", "mountPoints", "ulimits", "readonlyRootFilesystem",
    "user", "privileged", "linuxParameters", "logConfiguration", "secrets", "networkConfiguration",
    "fargatePlatformConfiguration", "ephemeralStorage", "runtimePlatform",
)  # fmt: skip


def now_ms() -> int:
    """Batch's times: milliseconds since 1970."""
    return int(time.time() * 1000)


class LocalJob(Job):
    """A job in its own thread. Another thread waits for its end on `ended`, without asking again and again."""

    status: str = "SUBMITTED"  # a plain attribute: moto's own moves on whenever it is read

    def __init__(self, *args: Any, retry_strategy: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.retry_strategy = retry_strategy or self.job_definition.retry_strategy or {}
        self.ended = threading.Event()
        self.created_ms = now_ms()
        self.started_ms: int | None = None
        self.stopped_ms: int | None = None
        self.stop = False
        self.exit_code: int | None = None
        self.job_stopped_reason: str | None = None
        self.reason: str | None = None  # of the container: API_ContainerDetail.reason
        self.cancelled = False
        self.task_arn: str | None = None
        self._state = threading.Lock()
        self._process: processes.Process | None = None
        self._stopping = threading.Event()

    # ---- what moto asks for ------------------------------------------------------------------------------------------
    def run(self) -> None:
        """The job's life; its thread's outermost edge."""
        try:
            self._live()
        except Exception as error:
            if not self._stopping.is_set():
                raise
            self._finish("FAILED", f"sandbox stopped: {error}")

    def describe_short(self) -> dict[str, Any]:
        """API_JobSummary."""
        shown = {
            "jobArn": self.arn,
            "jobId": self.job_id,
            "jobName": self.job_name,
            "createdAt": self.created_ms,
            "status": str(getattr(self.status, "value", self.status)),
            "jobDefinition": self.job_definition.arn,
            "statusReason": self.job_stopped_reason,
            "startedAt": self.started_ms,
            "stoppedAt": self.stopped_ms,
        }
        ended = {k: v for k, v in (("exitCode", self.exit_code), ("reason", self.reason)) if v is not None}
        return {k: v for k, v in {**shown, "container": ended or None}.items() if v is not None}

    def describe(self) -> dict[str, Any]:
        """API_JobDetail, which is also the detail of the events."""
        shown = {
            **self.describe_short(),
            "jobQueue": self.job_queue.arn,
            "attempts": [{**a, "container": dict(a["container"])} for a in self.attempts],
            "retryStrategy": {"attempts": 1, "evaluateOnExit": [], **self.retry_strategy},
            "dependsOn": self.depends_on or [],
            "parameters": self.parameters,
            "container": self._container(),
            "tags": self.backend.list_tags_for_resource(self.arn),
            "propagateTags": bool(self.job_definition.propagate_tags),
            "platformCapabilities": self.job_definition.platform_capabilities or [],
            "isCancelled": self.cancelled,
            "isTerminated": self.stop and not self.cancelled,
        }
        if seconds := self._get_attempt_duration():
            shown["timeout"] = {"attemptDurationSeconds": int(seconds)}
        return shown

    def terminate(self, reason: str, *, cancel: bool = False) -> None:
        """TerminateJob and, with `cancel`, CancelJob, which leaves jobs alone that are starting or running."""
        with self._state:
            if self.stop or self.ended.is_set() or (cancel and self.status in ("STARTING", "RUNNING")):
                return
            self.stop, self.cancelled = True, self.status not in ("STARTING", "RUNNING")
            self.job_stopped_reason = reason
            self._stopping.set()
            process = self._process
        if process:
            _stop(process)

    # ---- the life of a job -------------------------------------------------------------------------------------------
    def _live(self) -> None:
        self._move("SUBMITTED")
        if self.depends_on:
            self._move("PENDING")
            if not self._dependencies_succeeded():
                return self._finish("FAILED", self.job_stopped_reason or "Dependent Job failed")
        for number in range(1, batch_rules.attempts(self.retry_strategy) + 1):
            self._move("RUNNABLE")
            if self.stop:
                break
            self._move("STARTING")
            timed_out = self._attempt(number)
            if self.exit_code == 0 or self.stop or timed_out:
                break
            if not batch_rules.retries(
                self.retry_strategy,
                status_reason=self.job_stopped_reason or "",
                reason=self.reason or "",
                exit_code=self.exit_code,
            ):
                break
        good = self.exit_code == 0 and not self.stop and self.job_stopped_reason != batch_rules.TIMED_OUT
        return self._finish("SUCCEEDED" if good else "FAILED", self.job_stopped_reason)

    def _attempt(self, number: int) -> bool:
        """One start of the container; whether it ran out of time."""
        self.exit_code = self.reason = None
        group, prefix = self._log_place()
        task = uuid.uuid4().hex
        stream, began, outcome, timed_out = f"{prefix}/default/{task}", now_ms(), batch_rules.ESSENTIAL_EXITED, False
        self.task_arn = f"arn:aws:ecs:{surroundings.region()}:{surroundings.ACCOUNT}:task/sandbox/{task}"
        try:
            command, environment = self._command(), self._environment(number)
            self._log_backend.create_log_stream(group, stream)
            reading, writing = os.pipe()
            with open(reading, "rb", buffering=0) as output:
                process = self._start(command, environment, writing)
                if process is None:
                    return False  # stopped before there was a container: no attempt either
                self.log_stream_name = stream
                timed_out = self._follow(process, output, group, stream)
            if timed_out:
                outcome = batch_rules.TIMED_OUT
        except ResourceNotFoundException:
            outcome, self.reason = FAILED_TO_START, f"CannotStartContainerError: log group {group} does not exist"
        except (CannotStartError, secret_values.UnresolvableError) as error:
            outcome, self.reason = FAILED_TO_START, str(error)
        if not self.stop:
            self.job_stopped_reason = outcome
        container: dict[str, Any] = {
            "taskArn": self.task_arn,
            "exitCode": self.exit_code,
            "reason": self.reason,
            "logStreamName": self.log_stream_name,
            "networkInterfaces": [],
        }
        self.attempts.append(
            {
                "container": {k: v for k, v in container.items() if v is not None},
                "startedAt": self.started_ms or began,
                "stoppedAt": now_ms(),
                "statusReason": self.job_stopped_reason,
            }
        )
        return timed_out

    def _start(self, command: list[str], environment: dict[str, str], output: int) -> processes.Process | None:
        """The container's process, unless the job has been terminated meanwhile."""
        try:
            with self._state, open(os.devnull, "rb") as nothing:
                if self.stop:
                    return None
                self._process = processes.current().start(
                    command,
                    environment=environment,
                    cwd=surroundings.ROOT,
                    stdin=nothing.fileno(),
                    output=output,
                    memory_limit_bytes=int(self._requirements()["MEMORY"]) << 20,
                    warm=True,
                )
                return self._process
        finally:
            os.close(output)

    def _follow(self, process: processes.Process, output: IO[bytes], group: str, stream: str) -> bool:
        """Until the process has ended; whether its time was up."""
        self.started_ms = now_ms()
        self._move("RUNNING")
        timed_out = threading.Event()
        timer = self._timer(process, timed_out)
        self._copy_output(output, group, stream)
        process.ended.wait()
        if timer:
            timer.cancel()
        with self._state:
            self._process = None
        code = process.exit_code or 0
        self.exit_code = code if code >= 0 else 128 - code
        if process.out_of_memory:
            self.reason = batch_rules.OUT_OF_MEMORY
        return timed_out.is_set()

    def _timer(self, process: processes.Process, timed_out: threading.Event) -> threading.Timer | None:
        seconds = self._get_attempt_duration()
        if not seconds:
            return None

        def expire() -> None:
            timed_out.set()
            _stop(process)

        timer = threading.Timer(float(seconds), expire)
        timer.daemon = True
        timer.start()
        return timer

    def _copy_output(self, output: IO[bytes], group: str, stream: str) -> None:
        """The awslogs driver: one log event a line, with the time at which the line came."""
        rest = b""
        while chunk := output.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            self._log(group, stream, lines)
        if rest:
            self._log(group, stream, [rest])

    def _log(self, group: str, stream: str, lines: list[bytes]) -> None:
        stamp = now_ms()
        events = [{"timestamp": stamp, "message": line.decode(errors="replace").rstrip("\r")} for line in lines if line]
        if events:
            self._log_backend.put_log_events(group, stream, events)

    def _dependencies_succeeded(self) -> bool:
        for dependency in self.depends_on or []:
            other = self.all_jobs.get(dependency["jobId"])
            while other is not None and not other.ended.wait(0.2):
                if self.stop:
                    return False
            if other is None or other.status != "SUCCEEDED":
                return False
        return True

    # ---- what the container gets -------------------------------------------------------------------------------------
    def _properties(self) -> dict[str, Any]:
        return self.job_definition.container_properties or {}

    def _requirements(self) -> dict[str, str]:
        merged = batch_rules.merged_requirements(self._properties(), self.container_overrides)
        return {item["type"]: item["value"] for item in merged}

    def _command(self) -> list[str]:
        command = self.container_overrides.get("command") or self._properties().get("command", [])
        command = batch_rules.substituted(command, self.parameters)
        if not command:
            raise CannotStartError("CannotStartContainerError: the sandbox has no image whose entry point could run")
        if command[0] in ("python", "python3"):
            return [sys.executable, *command[1:]]
        if shutil.which(command[0]) is None:
            raise CannotStartError(
                f'CannotStartContainerError: exec: "{command[0]}": executable file not found in $PATH'
            )
        return command

    def _environment(self, number: int) -> dict[str, str]:
        own = batch_rules.merged_environment(self._properties(), self.container_overrides)
        environments = self.job_queue.environments
        return {
            **surroundings.child_environment(),
            "PYTHONUNBUFFERED": "1",
            **{e["name"]: e["value"] for e in own},
            **secret_values.resolve(self._properties().get("secrets", [])),
            "AWS_BATCH_JOB_ID": self.job_id,
            "AWS_BATCH_JOB_ATTEMPT": str(number),
            "AWS_BATCH_JQ_NAME": self.job_queue.name,
            "AWS_BATCH_CE_NAME": environments[0].name if environments else "",
        }

    def _log_place(self) -> tuple[str, str]:
        """Log group and stream prefix. Only Batch's own group comes into being by itself."""
        options = self._properties().get("logConfiguration", {}).get("options", {})
        group = options.get("awslogs-group", DEFAULT_LOG_GROUP)
        if group == DEFAULT_LOG_GROUP or options.get("awslogs-create-group") == "true":
            self._log_backend.ensure_log_group(group)
        return group, options.get("awslogs-stream-prefix", self.job_definition.name)

    def _container(self) -> dict[str, Any]:
        properties, overrides = self._properties(), self.container_overrides
        shown = {
            **{key: properties[key] for key in SHOWN_OF_CONTAINER if properties.get(key) is not None},
            "command": overrides.get("command") or properties.get("command", []),
            "environment": batch_rules.merged_environment(properties, overrides),
            "resourceRequirements": batch_rules.merged_requirements(properties, overrides),
            "networkInterfaces": [],
            "exitCode": self.exit_code,
            "reason": self.reason,
            "taskArn": self.task_arn,
            "logStreamName": self.log_stream_name,
        }
        return {key: value for key, value in shown.items() if value is not None}

    # ---- changes of state --------------------------------------------------------------------------------------------
    def _move(self, status: str) -> None:
        with self._state:
            self.status = status
        self._publish()

    def _finish(self, status: str, reason: str | None) -> None:
        with self._state:
            self.job_stopped_reason = reason
            self.stopped_ms = now_ms()
            self.job_stopped = True
            self.status = status
        self._publish()
        self.ended.set()

    def _publish(self) -> None:
        from sandbox import events

        events.publish(
            source="aws.batch", detail_type="Batch Job State Change", resources=[self.arn], detail=self.describe
        )


class CannotStartError(Exception):
    """The container cannot be started; the text is the container's reason."""


def _stop(process: processes.Process) -> None:
    """What ECS does to stop a task: SIGTERM, and SIGKILL to all that is left after the stop timeout."""
    process.signal(signal.SIGTERM)
    killer = threading.Timer(STOP_TIMEOUT_SECONDS, process.kill)
    killer.daemon = True
    killer.start()
