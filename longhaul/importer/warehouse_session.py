"""A connection to the warehouse, and patience with one that is busy.

The importer owns retries against the warehouse for up to five minutes; after that exit 20 hands them to Batch (R14).
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

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

    def pause(self) -> bool:
        """Wait a while; False, at once, when patience has run out since the first pause."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        left = self._since + self._seconds - now
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
    import psycopg

    try:
        connection = psycopg.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=connect_seconds,
            application_name="longhaul-importer",
            client_encoding="utf8",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            **_token(conninfo),
        )
    except psycopg.Error as error:
        raise classified(error) from error
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


def _token(conninfo: str) -> dict[str, Any]:
    """An IAM token as password, if LONGHAUL_WAREHOUSE_IAM_AUTH is `true`; it lasts 15 minutes: one per connection."""
    if os.environ.get("LONGHAUL_WAREHOUSE_IAM_AUTH", "").lower() != "true":
        return {}
    import boto3
    from psycopg.conninfo import conninfo_to_dict

    named = conninfo_to_dict(conninfo)
    host = str(named.get("host") or os.environ.get("PGHOST", ""))
    port = int(named.get("port") or os.environ.get("PGPORT", "5432"))
    user = str(named.get("user") or os.environ.get("PGUSER", ""))
    token = boto3.client("rds").generate_db_auth_token(DBHostname=host, Port=port, DBUsername=user)
    return {"password": token, "sslmode": "require"}
