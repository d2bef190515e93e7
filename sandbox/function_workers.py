"""Execution environments of Lambda functions: warm processes that run a deployed asset with its layers.

Sources: "Understanding the Lambda execution environment lifecycle", "Lambda quotas" and "Working with layers" of the
Lambda developer guide. moto 5.2.5 runs functions in Docker only (`awslambda/models.py`
LambdaFunction._invoke_lambda).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import socket
import sys
import threading
import time
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import processes, surroundings

RUNTIME_BRINGS = ("boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "six")
CONCURRENCY = 4  # execution environments of one function at a time; AWS: 1,000 an account
IDLE_SECONDS = 60
INIT_SECONDS = 10  # for the handler's module; only what takes longer counts as the invocation's own time
_LOG_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one invocation: a JSON document, and whether it describes an error."""

    document: str
    failed: bool
    log: str


class Worker:
    """One process; it serves one invocation at a time."""

    def __init__(self, function: Any, folder: Path, layers: list[Path], runtime: Path, log_group: str) -> None:
        self._logs, self._group = function.logs_backend, log_group
        self.stream = time.strftime("%Y/%m/%d/[$LATEST]", time.gmtime()) + uuid.uuid4().hex
        self._logs.ensure_log_group(log_group)
        self._logs.create_log_stream(log_group, self.stream)
        self.idle_since = time.monotonic()
        self._lines: list[str] = []
        self._logged = threading.Condition()
        mine, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            self.process = processes.current().start(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("function_runtime.py")),
                    function.handler,
                    str(function.timeout),
                    str(folder),
                    *(str(one / "python") for one in layers),
                    str(runtime),
                ],
                environment=_environment(function, log_group, self.stream),
                cwd=folder,
                stdin=theirs.fileno(),
                output=writing,
                memory_limit_bytes=int(function.memory_size) << 20,
            )
        finally:
            theirs.close()
            os.close(writing)
        self._channel, self._received, self._initialised = mine, b"", False
        threading.Thread(target=self._copy_log, args=(reading,), name="function-log", daemon=True).start()

    def invoke(self, event: Any, arn: str, timeout_seconds: float) -> Outcome:
        """Run the handler. After a time-out or a crash the worker is of no more use: `alive` is False."""
        request_id = str(uuid.uuid4())
        with self._logged:
            self._lines.clear()
        try:
            with contextlib.suppress(TimeoutError):
                self._initialise(INIT_SECONDS)
            self._channel.settimeout(timeout_seconds)
            self._channel.sendall(json.dumps({"event": event, "arn": arn, "request_id": request_id}).encode() + b"\n")
            self._initialise(timeout_seconds)
            answer = self._receive()
        except TimeoutError:
            self.process.kill()
            self.process.ended.wait(5)
            text = f"RequestId: {request_id} Error: Task timed out after {timeout_seconds:.2f} seconds"
            self._write([text])
            return _failure("Sandbox.Timedout", text, self._log_of(request_id, wait=False))
        except OSError:
            return self._ended(request_id)
        document, log = json.loads(answer), self._log_of(request_id, wait=True)
        if "error" in document:
            return Outcome(document=json.dumps(document["error"]), failed=True, log=log)
        return Outcome(document=document["result"], failed=False, log=log)

    def _initialise(self, seconds: float) -> None:
        """Wait until the handler's module is loaded."""
        if not self._initialised:
            self._channel.settimeout(seconds)
            self._receive()
            self._initialised = True

    def _receive(self) -> bytes:
        """The next line of the runtime; OSError when it is gone."""
        while b"\n" not in self._received:
            piece = self._channel.recv(1 << 16)
            if not piece:
                raise ConnectionResetError
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line

    @property
    def alive(self) -> bool:
        """Whether it can serve another invocation."""
        return not self.process.ended.is_set()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self._channel.close()

    def _ended(self, request_id: str) -> Outcome:
        self.process.ended.wait(5)
        code = self.process.exit_code or 0
        how = "Runtime exited without providing a reason" if code >= 0 else "Runtime exited with error: signal: killed"
        text = f"RequestId: {request_id} Error: {how}"
        self._write([text])
        return _failure("Runtime.ExitError", text, self._log_of(request_id, wait=False))

    def _copy_log(self, reading: int) -> None:
        with open(reading, errors="replace") as pipe:
            for line in pipe:
                self._write([line.rstrip("\n")])

    def _write(self, lines: list[str]) -> None:
        stamp = int(time.time() * 1000)
        self._logs.put_log_events(
            self._group, self.stream, [{"timestamp": stamp, "message": one} for one in lines if one]
        )
        with self._logged:
            self._lines.extend(lines)
            self._logged.notify_all()

    def _log_of(self, request_id: str, *, wait: bool) -> str:
        end = f"REPORT RequestId: {request_id}"
        with self._logged:
            if wait:
                self._logged.wait_for(lambda: any(line.startswith(end) for line in self._lines), _LOG_SECONDS)
            return "\n".join(self._lines)


def _failure(kind: str, text: str, log: str) -> Outcome:
    return Outcome(document=json.dumps({"errorType": kind, "errorMessage": text}), failed=True, log=log)


def _environment(function: Any, log_group: str, stream: str) -> dict[str, str]:
    return {
        **surroundings.child_environment(),
        "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
        "AWS_LAMBDA_LOG_GROUP_NAME": log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
        "_HANDLER": function.handler,
        "TZ": ":UTC",
        **{name: str(value) for name, value in function.environment_vars.items()},
    }


class Pool:
    """The execution environments of all functions, kept warm for a minute."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._idle: dict[str, list[Worker]] = {}
        self._count: dict[str, int] = {}
        self._unpacking = threading.Lock()
        threading.Thread(target=self._reclaim, name="function-reclaim", daemon=True).start()

    def invoke(self, function: Any, layers: list[bytes], event: Any) -> Outcome:
        """Run a function in a warm environment, or in a new one."""
        identity = _identity(function, layers)
        worker = self._take(function, identity)
        if worker is None:
            try:
                worker = self._create(function, layers)
            except BaseException:
                self._give_back(function, identity, None)
                raise
        try:
            return worker.invoke(event, function.function_arn, float(function.timeout))
        finally:
            self._give_back(function, identity, worker)

    def clear(self) -> None:
        """Forget all environments."""
        with self._changed:
            for workers in self._idle.values():
                for worker in workers:
                    worker.close()
            self._idle.clear()

    def _take(self, function: Any, identity: str) -> Worker | None:
        limit = int(function.reserved_concurrency or CONCURRENCY)
        with self._changed:
            while True:
                idle = self._idle.get(identity, [])
                while idle:
                    worker = idle.pop()
                    if worker.alive:
                        self._count[function.function_name] = self._count.get(function.function_name, 0) + 1
                        return worker
                if self._count.get(function.function_name, 0) < limit:
                    self._count[function.function_name] = self._count.get(function.function_name, 0) + 1
                    return None
                self._changed.wait()

    def _give_back(self, function: Any, identity: str, worker: Worker | None) -> None:
        with self._changed:
            self._count[function.function_name] -= 1
            if worker is not None and worker.alive:
                worker.idle_since = time.monotonic()
                self._idle.setdefault(identity, []).append(worker)
            self._changed.notify()

    def _create(self, function: Any, layers: list[bytes]) -> Worker:
        folder = self._unpack(function.code_bytes)
        return Worker(
            function, folder, [self._unpack(one) for one in layers], self._runtime(), function.logs_group_name
        )

    def _unpack(self, content: bytes) -> Path:
        target = self._folder / hashlib.sha256(content).hexdigest()[:16]
        with self._unpacking:
            if not target.exists():
                half = target.with_suffix(".half")
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    archive.extractall(half)
                half.rename(target)
        return target

    def _runtime(self) -> Path:
        """A folder with the SDK alone, as the runtime brings it."""
        target = self._folder / "runtime"
        with self._unpacking:
            target.mkdir(parents=True, exist_ok=True)
            for name in RUNTIME_BRINGS:
                spec = importlib.util.find_spec(name)
                if spec is None or spec.origin is None:
                    continue
                origin = Path(spec.origin)
                source = origin.parent if origin.name == "__init__.py" else origin
                link = target / source.name
                if not link.exists():
                    link.unlink(missing_ok=True)
                    link.symlink_to(source)
        return target

    def _reclaim(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS / 4)
            oldest = time.monotonic() - IDLE_SECONDS
            with self._changed:
                for identity, workers in self._idle.items():
                    for worker in [w for w in workers if w.idle_since < oldest]:
                        worker.close()
                        self._idle[identity].remove(worker)


def _identity(function: Any, layers: list[bytes]) -> str:
    """Changes with code, layers and configuration: an environment of an older deployment is not used again."""
    configuration = [function.handler, function.timeout, function.memory_size, function.environment_vars]
    content = [function.code_sha_256, *(hashlib.sha256(one).hexdigest() for one in layers)]
    return json.dumps([function.function_name, content, configuration], sort_keys=True, default=str)
