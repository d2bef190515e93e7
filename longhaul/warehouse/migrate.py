"""Bring a warehouse's schema to the newest version, or say which version it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longhaul.warehouse.connection import connect

if TYPE_CHECKING:
    from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"
LOCK_KEY = 0x4C4F4E47  # one migration at a time, whoever starts it


def migrate(conninfo: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Apply all migrations up to `revision`; return the schema's version before and after.

    `conninfo` is a libpq URL or keyword string; empty means the PG* variables. Waits for a migration under way.
    """
    from alembic import command

    with connect(conninfo, name="longhaul-migrate") as guard:
        guard.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        before = current_version(guard)
        command.upgrade(_config(conninfo), revision)
        return before, current_version(guard)


def newest_version() -> str:
    """The version that this code needs."""
    from alembic.script import ScriptDirectory

    head = ScriptDirectory.from_config(_config("")).get_current_head()
    assert head is not None  # noqa: S101 - the package ships at least one migration
    return head


def current_version(connection: object) -> str | None:
    """The version that the warehouse behind a psycopg connection has; None before the first migration."""
    import psycopg

    assert isinstance(connection, psycopg.Connection)  # noqa: S101
    found = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if not found or not found[0]:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def _config(conninfo: str) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["conninfo"] = conninfo
    return config
