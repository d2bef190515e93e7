"""Calls in threads of their own: whoever waits for them does so with an end, and none fails unheard (L4, S37)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from longhaul.fleet.errors import FleetError
from longhaul.fleet.runtime import Runtime

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 3600.0  # of one wait; after it the condition is looked at again


class Task(Generic[T]):
    """A call that runs in a thread. What becomes of it is kept, logged if it is an error, and told by `on_end`.

    `awaited`: whoever asks for the result says what an error means; only one that nobody foresaw is logged here then.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        call: Callable[[], T],
        on_end: Callable[[], None],
        *,
        awaited: bool = False,
    ) -> None:
        self.name, self._awaited = name, awaited
        self.ended = False
        self.error: Exception | None = None
        self._call, self._on_end = call, on_end
        self._result: list[T] = []
        runtime.spawn(self._run)

    @property
    def result(self) -> T:
        """What the call returned; its error is raised. Only once it has ended."""
        if self.error is not None:
            raise self.error
        if not self.ended:
            raise ValueError(f"{self.name}: not ended")
        return self._result[0]

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except Exception as error:
            self.error = error
            expected = isinstance(error, (FleetError, OSError))
            if not (expected and self._awaited):
                logger.warning("%s: %s: %s", self.name, type(error).__name__, error, exc_info=not expected)
        self.ended = True
        self._on_end()


class Waiter:
    """Lets one thread wait for whatever comes first of many things, and never without an end."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._woken = runtime, runtime.event()

    def wake(self) -> None:
        """Let the waiting thread look again. Any thread may; a signal handler may not, it would wait for itself."""
        self._woken.set()

    def until(self, ready: Callable[[], bool], until: float) -> bool:
        """Wait until it is ready, which is looked at whenever somebody wakes, or until that time of the host's clock.

        Returned is whether it is ready. `ready` may raise, which ends the wait.
        """
        while not ready():
            left = until - self._runtime.clock()
            if left <= 0:
                return False
            self._woken.wait(min(left, LONGEST_WAIT_SECONDS))
            self._woken.clear()
        return True


def together(runtime: Runtime, name: str, calls: Sequence[Callable[[], T]], until: float) -> Sequence[Task[T]]:
    """Let calls run side by side until all have ended, or that time of this host's clock; some may still run."""
    waiter = Waiter(runtime)
    tasks = [Task(runtime, name, call, waiter.wake) for call in calls]
    waiter.until(lambda: all(task.ended for task in tasks), until)
    return tasks
