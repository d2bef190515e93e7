"""A second empty warehouse to compare with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest

_numbers = itertools.count(1)


@pytest.fixture
def fresh_database(postgres) -> Iterator[Callable[[], str]]:
    """Make more empty, migrated databases within a test."""
    made = []

    def make() -> str:
        name = f"fresh_{next(_numbers)}"
        made.append(name)
        with psycopg.connect(postgres.url_for("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY FILE_COPY")
        return postgres.url_for(name)

    yield make
    with psycopg.connect(postgres.url_for("postgres"), autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
