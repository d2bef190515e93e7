"""`longhaul warehouse migrate|check`: bring the schema up to date, and look whether the rows fit together."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

database_url = click.option(
    "--database-url",
    envvar="DATABASE_URL",
    default="",
    help="Where the warehouse is; $DATABASE_URL, else the PG* variables.",
)


@click.group()
def warehouse() -> None:
    """Migrate and check the warehouse."""


@warehouse.command()
@database_url
def migrate(database_url: str) -> None:
    """Bring the warehouse's schema to the newest version (safe to repeat, and to run twice at once)."""
    from longhaul.warehouse import migrate as migration

    before, after = _reached(lambda: migration.migrate(database_url))
    done = f"schema {after}, nothing to do" if before == after else f"schema {before or 'none'} → {after}"
    click.echo(done, err=True)


@warehouse.command()
@database_url
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(database_url: str, as_json: bool) -> None:
    """Look whether the schema is current and the rows fit together; exit 1 if not."""
    from longhaul.warehouse import check as checks

    found = _reached(lambda: checks.check(database_url))
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
    else:
        for line in found.lines():
            click.echo(line)
    sys.exit(0 if found.sound else 1)


def _reached(action: Callable[[], Any]) -> Any:
    """Run `action`; a warehouse that cannot be reached is exit 3 and one line."""
    import psycopg

    try:
        return action()
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0]
        remedy = "check DATABASE_URL or the PG* variables"
        click.echo(f"Error: the warehouse cannot be reached: {reason}; {remedy}", err=True)
        sys.exit(3)
