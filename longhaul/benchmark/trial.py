"""Supervises trials: each a fresh interpreter with a time-out, all of whose processes are dead at its end (B3, F19)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from longhaul.benchmark import leftovers
from longhaul.benchmark.adapters import target
from longhaul.benchmark.checkpoint import Outcome
from longhaul.benchmark.orchestrator import Assignment, Measured

COMMAND = (sys.executable, "-P", "-c", "from longhaul.benchmark.child import main; main()")  # -P: nothing from the cwd
KILL_SECONDS = 10.0  # for the killed to be dead
EXIT_SECONDS = 5.0  # for a process to end that has given its result
SIGNAL_SECONDS = 1.0  # that an interrupt may come later than the end of a trial which got the same signal
_LOOK_SECONDS = 0.01
_SIGNALLED = {-2, -15}  # exit codes of a process that was ended by SIGINT or SIGTERM

_UNREADABLE = "what the trial's process says cannot be read"

Cancel = Callable[[str, Sequence[str]], None]  # adapter, ids of queries; an error passes


class _Message(msgspec.Struct, frozen=True):
    """A line from a trial's process."""

    query: str | None = None
    result: dict[str, Any] | None = None


class TrialProcesses:
    """An `Executor`: one trial at a time. SIGINT and SIGTERM are its user's to catch."""

    def __init__(self, *, log: Path, deadline: Path | None, cancel: Cancel) -> None:
        leftovers.adopt()
        self._log, self._deadline, self._cancel = log, deadline, cancel
        self._interrupted = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def close(self) -> None:
        """Give its file descriptors back."""
        os.close(self._wake_read)
        os.close(self._wake_write)

    def interrupt(self) -> None:
        """See `Executor.interrupt`."""
        self._interrupted.set()
        self._wake()

    def run(self, assignment: Assignment) -> Measured:
        """See `Executor.run`."""
        before = leftovers.children()
        process = _Process(assignment, log=self._log, deadline=self._deadline, ended=self._wake)
        try:
            said = process.follow(self._wake_read, self._interrupted, assignment.timeout_seconds)
            dead = self._end(process, before)
        finally:
            process.close()
        measured = self._judge(process, said, assignment)
        if not dead:
            return _stopped(measured, "processes of the trial could not be ended")
        if measured.queries and measured.outcome is not Outcome.SUCCESS:
            try:
                self._cancel(assignment.start.adapter, measured.queries)
            except Exception as error:  # noqa: BLE001  an adapter's; quiescing is what confirms (F10)
                return msgspec.structs.replace(measured, error=f"{measured.error}; not cancelled: {error}")
        return measured

    def _judge(self, process: _Process, said: str | None, assignment: Assignment) -> Measured:
        measured = process.measured()
        if measured is not None and not (measured.outcome is Outcome.FAILED and self._interrupted.is_set()):
            return measured  # a failure beside an interrupt may be its doing: the command was signalled too
        if said is None and process.exit_code in _SIGNALLED:
            self._interrupted.wait(SIGNAL_SECONDS)  # a signal to the whole group reaches its members one by one
        if self._interrupted.is_set():
            return Measured(outcome=Outcome.INTERRUPTED, error="interrupted", queries=process.queries)
        return Measured(outcome=Outcome.FAILED, error=said or _ended(process.exit_code), queries=process.queries)

    def _end(self, process: _Process, before: frozenset[int]) -> bool:
        until = time.monotonic() + KILL_SECONDS
        while not leftovers.kill(process.pid, before):
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_SECONDS)
        return process.wait(KILL_SECONDS)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: awake already; closed: nobody sleeps
            os.write(self._wake_write, b".")


class _Process:
    """The process of one trial, and what it said."""

    def __init__(self, assignment: Assignment, *, log: Path, deadline: Path | None, ended: Callable[[], None]) -> None:
        start, case = assignment.start, assignment.case
        task = {
            "id": start.trial,
            "target": target(case.adapter),
            "parameters": case.parameters,
            "scale": start.scale,
            "prefix": start.prefix,
            "deadline": None if deadline is None else str(deadline),
        }
        self._queries: list[str] = []
        self.exit_code: int | None = None
        self._result: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._pending = b""
        self._channel, its_end = os.pipe()
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*COMMAND, str(its_end)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(its_end,),
                )
        except OSError:
            os.close(self._channel)
            raise
        finally:
            os.close(its_end)
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()
        assert self._process.stdin is not None  # noqa: S101  asked for above
        with (
            contextlib.suppress(BrokenPipeError),
            self._process.stdin as stdin,
        ):  # dead already: its exit code says more
            stdin.write(msgspec.json.encode(task))

    @property
    def queries(self) -> tuple[str, ...]:
        """Ids that its adapter told so far."""
        return tuple(self._queries)

    @property
    def pid(self) -> int | None:
        """None once its number may be another's."""
        return None if self._ended.is_set() else self._process.pid

    def follow(self, wake: int, interrupted: threading.Event, timeout_seconds: float) -> str | None:
        """Listen until it has ended, said its result, or is to be ended; why it is, if not because it was interrupted.

        `wake` becomes readable when it has ended, or is interrupted.
        """
        until = time.monotonic() + timeout_seconds
        while self._result is None and not interrupted.is_set():
            remaining = until - time.monotonic()
            if remaining <= 0:
                return f"timed out after {timeout_seconds:g} s"
            ended = self._ended.is_set()  # looked at before the channel is read: then nothing can follow
            waits = 0.0 if ended else remaining
            ready, _, _ = select.select([self._channel, wake], [], [], waits)
            if wake in ready:
                os.read(wake, 4096)
            if self._channel in ready:
                if not self._listen():
                    self._ended.wait(EXIT_SECONDS)  # it closed the channel: it is about to end, if it has not
                    return None
            elif ended:
                return None
        if self._result is not None:
            self._ended.wait(EXIT_SECONDS)
        return None

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within that time."""
        return self._ended.wait(seconds)

    def measured(self) -> Measured | None:
        """What it said of its trial, if it came to that."""
        if self._result is None:
            return None
        try:
            return msgspec.convert({**self._result, "queries": self.queries}, Measured)
        except msgspec.ValidationError as error:  # an adapter's: it says nothing about other cases
            return Measured(outcome=Outcome.FAILED, error=f"{_UNREADABLE}: {error}", queries=self.queries)

    def close(self) -> None:
        """Give its file descriptors back; it is dead, or never will be."""
        os.close(self._channel)

    def _listen(self) -> bool:
        """Take in what it said; whether it may say more."""
        heard = os.read(self._channel, 65536)
        *lines, self._pending = (self._pending + heard).split(b"\n")
        for line in lines:
            try:
                message = msgspec.json.decode(line, type=_Message)
            except (msgspec.DecodeError, RecursionError) as error:
                message = _Message(result={"outcome": "failed", "error": f"{_UNREADABLE}: {error}"})
            if message.query is not None:
                self._queries.append(message.query)
            self._result = message.result or self._result
        return bool(heard)

    def _wait(self, ended: Callable[[], None]) -> None:
        self.exit_code = self._process.wait()
        self._ended.set()
        ended()


def _stopped(measured: Measured, error: str) -> Measured:
    """Nothing may follow this trial: what it started may still run (I5)."""
    return msgspec.structs.replace(measured, outcome=Outcome.INTERRUPTED, error=error)


def _ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"the trial's process was ended by signal {-exit_code}"
    return f"the trial's process ended with exit code {exit_code} and without a result"
