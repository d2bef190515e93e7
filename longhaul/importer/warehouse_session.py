"""A connection to the warehouse, and patience with one that is busy.

The importer owns retries against the warehouse for up to five minutes; after that exit 20 hands them to Batch (R14).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from longhaul.importer import termination
from longhaul.warehouse.connection import connect
from longhaul.warehouse.errors import WarehouseRefusedError, classified

if TYPE_CHECKING:
    import psycopg

PATIENCE_SECONDS = 300.0
LONGEST_PAUSE_SECONDS = 20.0


class Patience:
    """Pauses between attempts: exponential with full jitter, until the time is up."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._seconds, self._clock, self._sleep, self._draw = seconds, clock, sleep, draw
        self._since: float | None = None
        self._pause = 0.5

    def left(self) -> float:
        """How many seconds are left; counted from the first call."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        return self._since + self._seconds - now

    def pause(self) -> bool:
        """Wait a while; False, at once, when patience has run out since the first pause."""
        left = self.left()
        if left <= 0:
            return False
        self._sleep(min(left, self._pause * (0.5 + self._draw() / 2)))
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return True


def patience_seconds() -> float:
    """How long to put up with a busy warehouse; LONGHAUL_WAREHOUSE_PATIENCE_SECONDS, else five minutes."""
    return float(os.environ.get("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", PATIENCE_SECONDS))


def require_configuration(conninfo: str) -> None:
    """Refuse to guess where the warehouse is."""
    if not conninfo and not os.environ.get("PGHOST") and not os.environ.get("PGSERVICE"):
        raise WarehouseRefusedError("no warehouse is named: set DATABASE_URL, or PGHOST and the other PG* variables")


@contextlib.contextmanager
def session(conninfo: str, *, connect_seconds: int = 10) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit mode; psycopg's errors leave as WarehouseError."""
    if "psycopg" not in sys.modules:  # half imported it could neither import nor say so in a row
        with termination.ending_at_once():
            importlib.import_module("psycopg")
    import psycopg

    connection = connect(conninfo, name="longhaul-importer", connect_seconds=connect_seconds)
    try:
        yield connection
    except psycopg.Error as error:
        raise classified(error) from error
    except BaseException:
        with contextlib.suppress(Exception):
            connection.cancel_safe(timeout=2)  # else a statement under way would hold its locks to its end
        raise
    finally:
        connection.close()
