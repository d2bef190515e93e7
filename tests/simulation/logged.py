"""The fleet's log in a schedule: into its trace, and an error that nobody foresaw is a finding (L4)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from tests.simulation.world import ViolationError, World


class Trace(logging.Handler):
    """Writes to the trace of one world."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._world.note(f"        {record.name.removeprefix('longhaul.')}: {record.getMessage()}")
        if record.exc_info:
            raise ViolationError(f"L4 {record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


@contextlib.contextmanager
def logged(world: World, level: int = logging.WARNING) -> Iterator[None]:
    """Hear the fleet's log from that level on; all of it if there is a trace."""
    logger = logging.getLogger("longhaul.fleet")
    before = logger.level, logger.propagate
    handler = Trace(world)
    logger.setLevel(logging.INFO if world.trace is not None else level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
