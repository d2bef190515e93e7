"""Processes of the sandbox, started through its keeper: none survives it, and their ends wake whoever waits."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox import keeper, surroundings


@dataclass(eq=False)
class Process:
    """One command. `exit_code` is negative for a signal, as in subprocess, and None until `ended` is set."""

    id: int
    keeper: Keeper
    pid: int | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def signal(self, number: int) -> None:
        """SIGKILL goes to all of its process group, any other signal to its first process."""
        if not self.ended.is_set():
            self.keeper.tell({"do": "signal", "id": self.id, "signal": int(number)})

    def kill(self) -> None:
        """End it and all that it started."""
        self.signal(signal.SIGKILL)


class Keeper:
    """This side of the keeper process."""

    def __init__(self, log: Path | None = None) -> None:
        mine, theirs = socket.socketpair()
        output = open(log, "ab") if log else subprocess.DEVNULL  # noqa: SIM115  # closed below
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sandbox.keeper", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=surroundings.ROOT,
                env=surroundings.child_environment(),
                start_new_session=True,
            )
        finally:
            theirs.close()
            if log:
                output.close()  # type: ignore[union-attr]
        self._control, self._sending = mine, threading.Lock()
        self._ids, self._running = itertools.count(1), dict[int, Process]()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="keeper", daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the keeper itself."""
        return self._process.pid

    def start(
        self,
        argv: list[str],
        *,
        environment: dict[str, str],
        cwd: Path,
        stdin: int,
        output: int,
        memory_limit_bytes: int | None = None,
        warm: bool = False,
    ) -> Process:
        """Start a command; the descriptors stay the caller's to close. `warm` forks `python -m` commands."""
        process = Process(next(self._ids), self)
        with self._lock:
            self._running[process.id] = process
        self.tell(
            {
                "do": "start",
                "id": process.id,
                "argv": argv,
                "environment": environment,
                "cwd": str(cwd),
                "memory_limit_bytes": memory_limit_bytes,
                "warm": warm,
            },
            (stdin, output),
        )
        return process

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message; a keeper that is gone has no processes to start or to signal."""
        try:
            with self._sending:
                keeper.send(self._control, message, fds)
        except OSError as error:
            if message["do"] == "start":
                raise RuntimeError("the sandbox is shutting down, it starts no more processes") from error

    def kill_all(self) -> None:
        """End every command and wait until they are gone."""
        with self._lock:
            running = list(self._running.values())
        for process in running:
            process.kill()
        for process in running:
            process.ended.wait(5)

    def close(self) -> None:
        """End the keeper and with it everything that it started."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._control.close()

    def _listen(self) -> None:
        while True:
            try:
                received = keeper.receive(self._control)
            except OSError:
                received = None
            if received is None:
                break
            message = received[0]
            with self._lock:
                process = self._running.pop(message["id"]) if "ended" in message else self._running[message["id"]]
            if "pid" in message:
                process.pid = message["pid"]
                process.started.set()
            else:
                process.exit_code, process.out_of_memory = message["ended"], message["out_of_memory"]
                process.ended.set()
        with self._lock:
            lost, self._running = list(self._running.values()), {}
        for process in lost:
            process.exit_code = -signal.SIGKILL
            process.started.set()
            process.ended.set()


_current: Keeper | None = None


def current() -> Keeper:
    """The sandbox's keeper."""
    if _current is None:
        raise RuntimeError("processes.install() has not been called")
    return _current


def install(log: Path | None = None) -> Keeper:
    """Start the keeper."""
    global _current
    _current = Keeper(log)
    return _current


def run(argv: list[str], *, environment: dict[str, str], cwd: Path, timeout_seconds: float) -> tuple[int, str]:
    """Run a command to its end: its exit code and all that it printed. A command that takes too long is killed."""
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing:
        process = current().start(argv, environment=environment, cwd=cwd, stdin=nothing.fileno(), output=writing)
    os.close(writing)
    killer = threading.Timer(timeout_seconds, process.kill)
    killer.daemon = True
    killer.start()
    with os.fdopen(reading, "r", errors="replace") as pipe:
        text = pipe.read()
    process.ended.wait()
    killer.cancel()
    return process.exit_code if process.exit_code is not None else 1, text
