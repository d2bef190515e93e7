"""Fixtures of all tests: a real Postgres for the session, a fresh migrated database for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from longhaul.warehouse.migrate import migrate
from sandbox import postgres as local_postgres

TEMPLATE = "migrated"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local_postgres.Server]:
    """A running server; it holds a database `migrated` that is never written to."""
    server = local_postgres.start(tmp_path_factory.mktemp("postgres"))
    try:
        _execute(server, f"CREATE DATABASE {TEMPLATE}")
        migrate(server.url_for(TEMPLATE))
        yield server
    finally:
        server.stop()


@pytest.fixture
def database_url(postgres: local_postgres.Server) -> Iterator[str]:
    """URL of a fresh database with the newest schema and no rows."""
    name = f"test_{next(_numbers)}"
    _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
    yield postgres.url_for(name)
    _execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: local_postgres.Server, statement: str) -> None:
    with psycopg.connect(server.url_for("postgres"), autocommit=True) as connection:
        connection.execute(statement)
