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
    help="The warehouse.  [default: that of --env if given, else $DATABASE_URL or PG*, else the environment's own]",
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
    """Where the warehouse is: --database-url, that of --env, $DATABASE_URL or PG*, that of the environment by default.

    Names its host and database on stderr, for a variable that was left over must not go unseen.
    """
    conninfo = database_url or _by_variables(environment)
    conninfo = _own(environment) if conninfo is None else conninfo
    if place := place_of(conninfo):
        click.echo(f"Warehouse: {place}", err=True)
    return conninfo


def place_of(conninfo: str) -> str | None:
    """Return host, port and database of a connection string, never its password; None if it is none."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # whoever connects will say so
        return None
    host = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR")
    service = given.get("service") or os.environ.get("PGSERVICE")
    port = given.get("port") or os.environ.get("PGPORT") or 5432
    database = given.get("dbname") or os.environ.get("PGDATABASE") or "its default database"
    return f"{host}:{port}/{database}" if host or not service else f"service {service}"


def _by_variables(environment: Environment) -> str | None:
    """What $DATABASE_URL or PG* say, unless --env was given: that was typed for this command, they may be left over."""
    names = [name for name in ("DATABASE_URL", "PGHOST", "PGSERVICE") if os.environ.get(name)]
    if not names:
        return None
    if environment.explicit:
        click.echo(f"{' and '.join(names)} left aside for --env {environment.name}.", err=True)
        return None
    return os.environ.get("DATABASE_URL") or ""


def _own(environment: Environment) -> str:
    """The sandbox's warehouse, or that of the deployed stack's secret."""
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
