"""Doing things that block aside, in threads and processes: with an end, and never deaf to what must stop it (S37)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from longhaul.fleet.errors import FleetError
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.machine import Notice
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.tasks import Task, Waiter
from longhaul.fleet.watch import Reason
from longhaul.fleet.work import Process

KILL_SECONDS = 10.0  # until a killed group has to be dead

T = TypeVar("T")


class HaltedError(Exception):
    """What the thread does must stop here."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class LateError(FleetError):
    """Something was not done in time."""


class BrokenError(FleetError):
    """Something failed in a way that nobody foresaw; the log has its trace."""


class AliveError(FleetError):
    """A command was killed, and something of it still lives."""


class Aside:
    """The one thread that decides. It starts things, waits for them, and hears of a notice meanwhile."""

    def __init__(self, runtime: Runtime, waiter: Waiter, lookout: Lookout) -> None:
        self.heeds_notice = True  # until leaving is what it does
        self.process: Process | None = None  # that may have something alive
        self._runtime, self._waiter, self._lookout = runtime, waiter, lookout

    @property
    def limit(self) -> float:
        """When `check` has to be asked at the latest, by the host's clock."""
        return float("inf")

    @property
    def notice(self) -> Notice | None:
        """That the host had, heeded or not."""
        return self._lookout.notice

    def check(self) -> None:
        """Raise `HaltedError` if the thread must stop what it does."""
        if self.heeds_notice and self._lookout.notice is not None:
            raise HaltedError(Reason.NOTICE)

    def wait(self, ready: Callable[[], bool], until: float) -> bool:
        """Wait until it is ready, or that time; whether it is. What must stop it goes before (S52)."""
        while True:
            if self._waiter.until(lambda: self._ready(ready), min(until, self.limit)):
                return True
            self.check()
            if self._runtime.clock() >= until:
                return False

    def _ready(self, ready: Callable[[], bool]) -> bool:
        self.check()
        return ready()

    def start(self, name: str, call: Callable[[], T]) -> Task[T]:
        """Call it in a thread that wakes this one at its end; `result` tells of it."""
        return Task(self._runtime, name, call, self._waiter.wake, awaited=True)

    def result(self, task: Task[T], seconds: float) -> T:
        """What the call returns; a `FleetError` or `OSError` of it passes, `LateError` if it is not done in time."""
        if not self.wait(lambda: task.ended, self._runtime.clock() + seconds):
            raise LateError(f"{task.name}: not done after {seconds:.0f} s")
        if task.error is not None and not isinstance(task.error, (FleetError, OSError)):
            raise BrokenError(f"{task.name}: {type(task.error).__name__}: {task.error}") from task.error
        return task.result

    def call(self, name: str, call: Callable[[], T], seconds: float) -> T:
        """Call it in a thread, and wait, as `result` says."""
        return self.result(self.start(name, call), seconds)

    def run(self, start: Callable[[Callable[[], None]], Process], seconds: float | None = None) -> int | None:
        """Run a command to its end, and kill what it left (F11); None if it had to be killed.

        An `OSError` of its start passes. `AliveError` if something of it survives. When this must stop the command is
        still there: it is `process` then, and whoever stops it ends that too.
        """
        process = self.process = start(self._waiter.wake)
        until = self._runtime.clock() + seconds if seconds is not None else float("inf")
        ended = self.wait(lambda: process.exit_code is not None, until)
        code = process.exit_code if ended else None
        if not self.kill(self._runtime.clock() + KILL_SECONDS):
            raise AliveError
        return code

    def kill(self, until: float) -> bool:
        """Kill whatever may be alive of the command, whether it has ended or not (S12); whether it was seen dead.

        It hears of nothing meanwhile, and `until` bounds it.
        """
        process = self.process
        if process is None:
            return True
        task = self.start("killing a command", lambda: process.kill(until))
        self._waiter.until(lambda: task.ended, until + 1)
        if task.ended and task.error is None and task.result:
            self.process = None
            return True
        return False
