"""One attempt at an execution, from its start or redrive to its end, and how it is told to let go.

AWS: a stop, a time-out or a breached tolerance reaches work in progress; what waits must wake at once and no thread
may be left behind (https://docs.aws.amazon.com/step-functions/latest/apireference/API_StopExecution.html).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sandbox.step_functions.errors import Halted


class Attempt:
    """Halting is for good; an attempt that was forgotten (the server was reset) also writes nothing any more."""

    def __init__(self) -> None:
        self._halted = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.forgotten = False

    @property
    def halted(self) -> bool:
        return self._halted.is_set()

    def halt(self, *, forget: bool = False) -> None:
        self.forgotten = self.forgotten or forget
        with self._lock:
            self._halted.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def on_halt(self, listener: Callable[[], None]) -> None:
        """Call `listener` at the halt, at once if that was earlier."""
        with self._lock:
            if not self._halted.is_set():
                self._listeners.append(listener)
                return
        listener()

    def check(self) -> None:
        if self._halted.is_set():
            raise Halted

    def wait(self, seconds: float) -> None:
        """Sleep, unless halted."""
        if self._halted.wait(seconds):
            raise Halted
