"""SIGTERM (a Spot reclaim, a stop): give up what is under way, roll back, end with 143 within 10 s, never with 0."""

from __future__ import annotations

import os
import signal
from types import FrameType

GRACE_SECONDS = 8
EXIT_CODE = 143


class TerminatedError(BaseException):
    """The process was told to end. Not an Exception, so that nothing on the way takes it for an error it can handle."""


def install() -> None:
    """Turn the first SIGTERM into TerminatedError, and end the process hard if that takes too long."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
    raise TerminatedError


def _give_up(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)
