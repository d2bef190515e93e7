"""SIGTERM (a Spot reclaim, a stop): give up what is under way, roll back, end with 143 within 10 s, never with 0."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

GRACE_SECONDS = 8
EXIT_CODE = 143
REASON = "told to end (SIGTERM)"
_state = {"requested": False}


class TerminatedError(BaseException):
    """The process was told to end. Not an Exception, so that nothing on the way takes it for an error it can handle."""


def end_at_once() -> None:
    """End the process at SIGTERM without ceremony: before there is anything to roll back, and after all is done."""
    signal.signal(signal.SIGTERM, _give_up)


def install() -> None:
    """Turn the first SIGTERM into TerminatedError, and end the process hard if that takes too long."""
    signal.signal(signal.SIGTERM, _terminate)


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Around what must not be left half done in memory and has nothing to roll back: SIGTERM ends the process there."""
    before = signal.signal(signal.SIGTERM, _give_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def requested() -> bool:
    """Whether the process was told to end; inside a library that may surface as any error, or as none."""
    return _state["requested"]


def _terminate(number: int, frame: FrameType | None) -> None:
    _state["requested"] = True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
    raise TerminatedError


def _give_up(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)
