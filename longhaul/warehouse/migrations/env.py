"""Alembic's entry: one psycopg connection, each migration in a transaction of its own."""

from __future__ import annotations

import psycopg
import sqlalchemy
from alembic import context

conninfo = context.config.attributes["conninfo"]
# psycopg itself makes the connection, so that URLs, keyword strings and the PG* variables mean the same everywhere.
engine = sqlalchemy.create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo), poolclass=sqlalchemy.NullPool
)
with engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
