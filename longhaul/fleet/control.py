"""How an attempt does things that block: aside, with an end, and never deaf to what must stop it (F13, S37)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Terms
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.objects import Store
from longhaul.fleet.results import AlienAttemptError, Results
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.slots import Slots
from longhaul.fleet.tasks import Task, Waiter
from longhaul.fleet.watch import Reason, Watch
from longhaul.fleet.work import Process, Work

logger = logging.getLogger(__name__)

TRANSFER_SECONDS = 1800.0  # that one try of a transfer may take
TRIES, PAUSE_SECONDS = 5, 5.0  # of a transfer; the pauses double. It owns the retries beyond the client's own
KILL_SECONDS = 10.0  # until a killed group has to be dead

T = TypeVar("T")


class HaltedError(Exception):
    """The attempt must stop here."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class GivenUpError(FleetError):
    """The attempt cannot go on, though nothing forces it to stop: another worker may do better."""


class LateError(FleetError):
    """Something was not done in time."""


class BrokenError(FleetError):
    """Something failed in a way that nobody foresaw; the log has its trace."""


class AliveError(FleetError):
    """A command was killed, and something of it still lives."""


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """What a worker gives its attempts."""

    keys: QueueKeys
    store: Store
    slots: Slots
    work: Work
    results: Results
    lookout: Lookout
    waiter: Waiter  # of the one thread that runs attempts
    runtime: Runtime
    terms: Terms


class Control:
    """The one thread of an attempt: it starts things, waits for them, and hears of what must stop it."""

    def __init__(self, equipment: Equipment, watch: Watch) -> None:
        self.watch = watch
        self.heeds_loss = True  # until stopping is what it does
        self.heeds_notice = True  # until handing over is what it does
        self.process: Process | None = None  # that may have something alive
        self.uploading: Task[Any] | None = None  # the last upload, ended or not
        self._equipment, self._runtime = equipment, equipment.runtime
        self._waiter, self._lookout = equipment.waiter, equipment.lookout

    def check(self) -> None:
        """Raise `HaltedError` if the attempt must stop."""
        if self.heeds_loss:
            reason = self.watch.look()
            if reason is not None:
                raise HaltedError(reason)
        if self.heeds_notice and self._lookout.notice is not None:
            raise HaltedError(Reason.NOTICE)

    def wait(self, ready: Callable[[], bool], until: float) -> bool:
        """Wait until it is ready, or that time; whether it is. What stops the attempt goes before (S52)."""
        while True:
            limit = min(until, self.watch.limit) if self.heeds_loss else until
            if self._waiter.until(lambda: self._ready(ready), limit):
                return True
            self.check()
            if self._runtime.clock() >= until:
                return False

    def _ready(self, ready: Callable[[], bool]) -> bool:
        self.check()
        return ready()

    def call(self, name: str, call: Callable[[], T], seconds: float) -> T:
        """Call it in a thread, and wait; its error passes, `LateError` if it is not done in time."""
        return self._await(self._start(name, call), seconds)

    def insist(self, name: str, call: Callable[[], T]) -> T:
        """Transfer something, with a few tries; then `GivenUpError`."""
        return self._insist(name, lambda: self._start(name, call))

    def upload(self, name: str, call: Callable[[], T]) -> T:
        """Like `insist`; whoever stops the attempt sees whether an upload is still under way (S26)."""

        def start() -> Task[T]:
            task = self._start(name, call)
            self.uploading = task
            return task

        return self._insist(name, start)

    def _start(self, name: str, call: Callable[[], T]) -> Task[T]:
        return Task(self._runtime, name, call, self._waiter.wake)

    def _await(self, task: Task[T], seconds: float) -> T:
        if not self.wait(lambda: task.ended, self._runtime.clock() + seconds):
            raise LateError(f"{task.name}: not done after {seconds:.0f} s")
        if task.error is not None and not isinstance(task.error, (FleetError, OSError)):
            raise BrokenError(f"{task.name}: {type(task.error).__name__}: {task.error}") from task.error
        return task.result

    def _insist(self, name: str, start: Callable[[], Task[T]]) -> T:
        for number in range(TRIES):
            if number:
                pause = self._runtime.jittered(PAUSE_SECONDS * 2 ** (number - 1))
                self.wait(lambda: False, self._runtime.clock() + pause)
            try:
                return self._await(start(), TRANSFER_SECONDS)
            except (AlienAttemptError, LateError) as error:
                raise GivenUpError(f"{name}: {error}") from error
            except (FleetError, OSError) as error:
                failure = error
        raise GivenUpError(f"{name}: {failure}") from failure

    def look_again(self, seconds: float) -> None:
        """Look for a notice now rather than at the next turn (F10, S6)."""
        looks = self._lookout.looks
        self._lookout.poke()
        self.wait(lambda: self._lookout.looks > looks, self._runtime.clock() + seconds)

    def run(self, start: Callable[[Callable[[], None]], Process], seconds: float | None = None) -> int | None:
        """Run a command to its end, and kill what it left (F11); None if it had to be killed.

        An `OSError` of its start passes. `AliveError` if something of it survives. When the attempt must stop the
        command is still there: it is `process` then, and whoever stops the attempt ends it.
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
        task = Task(self._runtime, "killing a command", lambda: process.kill(until), self._waiter.wake)
        self._waiter.until(lambda: task.ended, until + 1)
        if task.ended and task.error is None and task.result:
            self.process = None
            return True
        return False
