"""The schema can be applied, repeated, applied twice at once, and taken back."""

from __future__ import annotations

import threading

import psycopg

from longhaul.warehouse import migrate as migration

TABLES = {"eval", "sample", "score", "message", "sample_model", "model_role", "import_run", "log", "log_sample"}


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name for (name,) in rows} - {"alembic_version"}


def test_migrating_makes_every_table_and_repeating_does_nothing(database_url: str) -> None:
    assert tables(database_url) == TABLES
    assert migration.migrate(database_url) == (migration.newest_version(), migration.newest_version())


def test_two_migrations_at_once_on_an_empty_database(postgres) -> None:
    with psycopg.connect(postgres.url_for("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS twice WITH (FORCE)")
        connection.execute("CREATE DATABASE twice")
    url, results = postgres.url_for("twice"), []
    threads = [threading.Thread(target=lambda: results.append(migration.migrate(url))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {before for before, _ in results} == {None, migration.newest_version()}
    assert {after for _, after in results} == {migration.newest_version()}
    assert tables(url) == TABLES
