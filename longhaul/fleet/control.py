"""What an attempt does aside: it also hears of the loss of its claim, and insists on transfers (F12, F14)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from longhaul.fleet.aside import Aside, HaltedError, LateError
from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Terms
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.objects import Store
from longhaul.fleet.results import AlienAttemptError, Results
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.slots import Slots
from longhaul.fleet.surroundings import Journal
from longhaul.fleet.tasks import Task, Waiter
from longhaul.fleet.watch import Watch
from longhaul.fleet.work import Work

TRANSFER_SECONDS = 1800.0  # that one try of a transfer may take
OUTLAST_SECONDS = 600.0  # more that one which was given up may go on
TRIES, PAUSE_SECONDS = 5, 5.0  # of a transfer; the pauses double. It owns the retries beyond the client's own

logger = logging.getLogger(__name__)

T = TypeVar("T")


class GivenUpError(FleetError):
    """The attempt cannot go on, though nothing forces it to stop: another worker may do better."""


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """What a worker gives its attempts."""

    keys: QueueKeys
    store: Store
    slots: Slots
    work: Work
    results: Results
    journal: Journal
    lookout: Lookout
    waiter: Waiter  # of the one thread that runs attempts
    runtime: Runtime
    terms: Terms


class Control(Aside):
    """The one thread of an attempt."""

    def __init__(self, equipment: Equipment, watch: Watch) -> None:
        super().__init__(equipment.runtime, equipment.waiter, equipment.lookout)
        self.watch = watch
        self.heeds_loss = True  # until stopping is what it does
        self.uploading: Task[Any] | None = None  # the last upload, ended or not
        self._transferring: Task[Any] | None = None  # the last transfer of any kind

    @property
    def limit(self) -> float:
        """See `Aside.limit`."""
        return self.watch.limit if self.heeds_loss else super().limit

    def check(self) -> None:
        """See `Aside.check`."""
        if self.heeds_loss:
            reason = self.watch.look()
            if reason is not None:
                raise HaltedError(reason)
        super().check()

    def insist(self, name: str, call: Callable[[], T]) -> T:
        """Transfer something, with a few tries; then `GivenUpError`."""
        return self._insist(name, lambda: self.start(name, call))

    def upload(self, name: str, call: Callable[[], T]) -> T:
        """Like `insist`; whoever stops the attempt sees whether an upload is still under way (S26)."""

        def start() -> Task[T]:
            task = self.start(name, call)
            self.uploading = task
            return task

        return self._insist(name, start)

    def _insist(self, name: str, start: Callable[[], Task[T]]) -> T:
        for number in range(TRIES):
            if number:
                pause = self._runtime.jittered(PAUSE_SECONDS * 2 ** (number - 1))
                self.wait(lambda: False, self._runtime.clock() + pause)
            try:
                task = self._transferring = start()
                return self.result(task, TRANSFER_SECONDS)
            except (AlienAttemptError, LateError) as error:
                raise GivenUpError(f"{name}: {error}") from error
            except (FleetError, OSError) as error:
                failure = error
                logger.warning("%s, try %d of %d: %s", name, number + 1, TRIES, error)
        raise GivenUpError(f"{name}: {failure}") from failure

    def outlast(self) -> bool:
        """Wait for a transfer that was given up and goes on: the host measures nothing beside it (I6, F19).

        Whether it has ended: S3's client has time-outs of its own.
        """
        task = self._transferring
        return task is None or self.wait(lambda: task.ended, self._runtime.clock() + OUTLAST_SECONDS)

    def look_again(self, seconds: float) -> None:
        """Look for a notice now rather than at the next turn (F10, S6)."""
        looks = self._lookout.looks
        self._lookout.poke()
        self.wait(lambda: self._lookout.looks > looks, self._runtime.clock() + seconds)
