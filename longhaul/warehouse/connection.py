"""Connections to the warehouse: how they end when one side is gone, who they are, and what is never said of them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from longhaul.warehouse.errors import WarehouseError, WarehouseRefusedError, WarehouseUnavailableError, classified

if TYPE_CHECKING:
    import psycopg

# A server that vanished without a word is noticed after a minute, while reading by keepalives, while writing by this.
UNANSWERED_MS = 60_000
_AUTHORITY = re.compile(r"postgres(?:ql)?://(?P<authority>[^?#]*)")


def connect(conninfo: str, *, name: str, connect_seconds: int = 10) -> psycopg.Connection[Any]:
    """A connection in autocommit mode. Raises WarehouseError, without the conninfo, which holds a password.

    `conninfo` is a libpq URL or keyword string; empty means the PG* variables.
    """
    import psycopg

    known = _parsed(conninfo)
    try:
        connection = psycopg.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=connect_seconds,
            application_name=name,
            client_encoding="utf8",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=UNANSWERED_MS,
            **_token(known),
        )
    except psycopg.Error as error:
        raise _without_secrets(classified(error), known) from None  # the cause would be printed with it
    # Decisions are made on what is committed once a lock is held: a stricter default of the database would show less.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return connection


def _parsed(conninfo: str) -> dict[str, Any]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    found = _AUTHORITY.match(conninfo)
    try:
        if found and found["authority"].count("@") > 1:
            raise psycopg.ProgrammingError  # libpq would take the password's end for the host, and say so
        return dict(conninfo_to_dict(conninfo))
    except psycopg.ProgrammingError:
        raise WarehouseRefusedError(
            "DATABASE_URL is no connection string: characters such as @ : / % in a password must be percent-encoded"
        ) from None  # psycopg's own message may quote it


def _token(known: dict[str, Any]) -> dict[str, Any]:
    """An IAM token as password, if LONGHAUL_WAREHOUSE_IAM_AUTH is `true`; it lasts 15 minutes: one per connection."""
    if os.environ.get("LONGHAUL_WAREHOUSE_IAM_AUTH", "").lower() != "true":
        return {}
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    host = str(known.get("host") or os.environ.get("PGHOST", ""))
    port = int(known.get("port") or os.environ.get("PGPORT", "5432"))
    user = str(known.get("user") or os.environ.get("PGUSER", ""))
    try:
        token = boto3.client("rds").generate_db_auth_token(DBHostname=host, Port=port, DBUsername=user)
    except (BotoCoreError, ClientError) as error:
        raise WarehouseUnavailableError(f"no IAM token for the warehouse: {error}") from error
    named = known.get("sslmode") or os.environ.get("PGSSLMODE")
    # RDS takes tokens over TLS only; a stricter mode than `require` stays.
    return {"password": token, "sslmode": named if named in ("verify-ca", "verify-full") else "require"}


def _without_secrets(error: WarehouseError, known: dict[str, Any]) -> WarehouseError:
    said = str(error)
    for secret in (known.get("password"), os.environ.get("PGPASSWORD")):
        if secret:
            said = said.replace(str(secret), "***")
    return type(error)(said)
