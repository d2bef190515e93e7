"""Looks for notices, in a thread that no error ends and that nothing else can block (F12, S14, S25)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from longhaul.fleet.machine import Notice, Notices
from longhaul.fleet.runtime import Runtime

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # between two looks


class Lookout:
    """From the start of a worker to its end. The first notice stands, and ends the thread.

    `seconds` is the time between two looks; SIGTERM can be handed in at any time.
    """

    def __init__(self, notices: Notices, runtime: Runtime, seconds: float = LOOK_SECONDS) -> None:
        self.notice: Notice | None = None
        self.at = 0.0  # when it came, by the host's clock: 100 s count from here (F13)
        self.looks = 0
        self._notices, self._runtime, self._seconds = notices, runtime, seconds
        self._wake: Callable[[], None] = lambda: None
        self._poked = runtime.event()
        self._handed_in: tuple[Notice, float] | None = None
        self._stopped, self._asked = False, False

    def start(self, wake: Callable[[], None]) -> None:
        """Begin. `wake` is called from the thread with a notice, and after a look that was asked for."""
        self._wake = wake
        self._runtime.spawn(self._run)

    def stop(self) -> None:
        """End soon; nobody waits for it."""
        self._stopped = True
        self._poked.set()

    def hand_in(self, notice: Notice) -> None:
        """A notice from elsewhere. It takes no lock, so a signal handler may call it; the next look finds it."""
        if self._handed_in is None:
            self._handed_in = (notice, self._runtime.clock())

    def poke(self) -> None:
        """Look now; `looks` counts. Not from a signal handler."""
        self._asked = True
        self._poked.set()

    def _run(self) -> None:
        failure = None
        while not self._stopped and self.notice is None:
            self._poked.clear()
            try:
                self._see(None)
                if self.notice is None:
                    self._see(self._notices.check())
                failure = None
            except Exception as error:  # noqa: BLE001  whatever it is, the next look may succeed (S14)
                if type(error) is not failure:
                    logger.warning("looking for a notice: %s: %s", type(error).__name__, error)
                failure = type(error)
            self.looks += 1
            if self._asked or self.notice is not None:
                self._asked = False
                self._wake()
            if self.notice is None:
                self._poked.wait(self._seconds)

    def _see(self, found: Notice | None) -> None:
        at = self._runtime.clock()
        if self._handed_in is not None:
            found, at = self._handed_in
        if found is not None:
            self.at = at
            self.notice = found
            logger.warning("notice: %s %s", found.kind, found.text)
