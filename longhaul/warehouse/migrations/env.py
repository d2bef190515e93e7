"""Alembic's entry: one psycopg connection, each migration in a transaction of its own."""

from __future__ import annotations

from typing import Any

import psycopg
import sqlalchemy
from alembic import context

from longhaul.warehouse.connection import connect

conninfo = context.config.attributes["conninfo"]


def _connect() -> psycopg.Connection[Any]:
    """Our own connection, so that URLs, keyword strings, PG* variables and IAM tokens mean the same everywhere."""
    connection = connect(conninfo, name="longhaul-migrate")
    connection.autocommit = False  # as SQLAlchemy expects it
    return connection


engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=_connect, poolclass=sqlalchemy.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
