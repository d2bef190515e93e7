"""`longhaul warehouse migrate|check`: bring the schema up to date, and look whether the rows fit together."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from longhaul.cli.environment import SANDBOX, Environment, environment_options, sandbox_environment
from longhaul.cli.errors import EnvironmentProblemError

database_url_option = click.option(
    "--database-url",
    metavar="URL",
    help="The warehouse.  [default: $DATABASE_URL or the PG* variables, else the environment's own]",
)


@click.group()
def warehouse() -> None:
    """Migrate and check the warehouse."""


@warehouse.command()
@database_url_option
@environment_options
def migrate(environment: Environment, database_url: str | None) -> None:
    """Bring the warehouse's schema to the newest version.

    Safe to repeat, and to run twice at once.
    """
    from longhaul.warehouse import migrate as migration

    conninfo = conninfo_of(environment, database_url)
    before, after = reached(lambda: migration.migrate(conninfo))
    done = f"schema {after}, nothing to do" if before == after else f"schema {before or 'none'} → {after}"
    click.echo(done, err=True)


@warehouse.command()
@database_url_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@environment_options
def check(environment: Environment, database_url: str | None, as_json: bool) -> None:
    """Look whether the schema is current and the rows fit together.

    Names logs to import again: they hold samples that the warehouse lacks. Exit 1 if anything is to be done.
    """
    from longhaul.warehouse import check as checks

    conninfo = conninfo_of(environment, database_url)
    found = reached(lambda: checks.check(conninfo))
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(found.lines()))
    sys.exit(0 if found.sound else 1)


def conninfo_of(environment: Environment, database_url: str | None) -> str:
    """Where the warehouse is: the option, $DATABASE_URL or PG*, the sandbox's, or the deployed stack's secret."""
    if database_url:
        return database_url
    if os.environ.get("DATABASE_URL"):
        return os.environ["DATABASE_URL"]
    if os.environ.get("PGHOST") or os.environ.get("PGSERVICE"):
        return ""
    if environment.name == SANDBOX:
        return sandbox_environment()["DATABASE_URL"]
    from psycopg.conninfo import make_conninfo

    secret = environment.client("secretsmanager").get_secret_value(SecretId=environment.output("WarehouseSecretArn"))
    fields = json.loads(secret["SecretString"])
    return make_conninfo(
        host=fields["host"],
        port=fields.get("port", 5432),
        user=fields["username"],
        password=fields["password"],
        dbname=fields.get("dbname", "warehouse"),
    )


def reached(action: Callable[[], Any]) -> Any:
    """Run `action`; a warehouse that cannot be reached, or refuses, is one line and exit 3."""
    import psycopg

    from longhaul.warehouse.errors import WarehouseError, WarehouseUnavailableError, classified

    try:
        return action()
    except (WarehouseError, psycopg.Error) as error:
        found = classified(error) if isinstance(error, psycopg.Error) else error
    if isinstance(found, WarehouseUnavailableError):
        raise EnvironmentProblemError(
            f"the warehouse cannot be reached: {found}; check DATABASE_URL or the PG* variables"
        ) from found
    raise EnvironmentProblemError(f"the warehouse refuses: {found}") from found
