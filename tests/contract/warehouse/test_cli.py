"""`longhaul warehouse` and `longhaul import` by hand."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from longhaul.cli import main
from tests.logs import sample, write_log


@pytest.fixture
def longhaul(database_url: str, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setattr("longhaul.importer.termination.install", lambda: None)
    monkeypatch.setattr("longhaul.importer.logs.set_up", lambda **always: None)  # it is for a process of its own
    return lambda *arguments: CliRunner().invoke(main, [str(one) for one in arguments])


def test_migrate_check_import_and_check_again(longhaul, database_url: str, tmp_path: Path) -> None:
    assert "nothing to do" in longhaul("warehouse", "migrate").stderr
    assert longhaul("warehouse", "check").exit_code == 0
    done = longhaul("import", write_log(tmp_path / "a.eval", [sample(1)]))
    assert (done.exit_code, json.loads(done.stdout)["samples"]) == (0, 1)
    found = json.loads(longhaul("warehouse", "check", "--json").stdout)
    assert (found["sound"], found["rows"]["sample"], found["rows"]["message"]) == (True, 1, 2)
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM message WHERE ordinal = 1")
    checked = longhaul("warehouse", "check")
    assert checked.exit_code == 1
    assert "1 samples whose message count differs" in checked.stdout


def test_an_import_by_hand_ends_with_the_importers_codes(longhaul, tmp_path: Path) -> None:
    (tmp_path / "bad.eval").write_bytes(b"PK damaged")
    assert longhaul("import", tmp_path / "bad.eval").exit_code == 10
    assert longhaul("import", tmp_path / "absent.eval").exit_code == 2
    assert longhaul("import", "s3://only-a-bucket").exit_code == 2


def test_a_warehouse_out_of_reach_is_3_and_one_line(longhaul) -> None:
    ended = longhaul("warehouse", "check", "--database-url", "postgresql://u:p@127.0.0.1:1/x")
    assert ended.exit_code == 3
    assert ended.stderr.startswith("Warehouse: 127.0.0.1:1/x\nError: the warehouse cannot be reached")
    assert "p@" not in ended.stderr


def test_a_warehouse_that_refuses_is_3_and_one_line(longhaul, postgres, database_url: str) -> None:
    """No right to read, or a connection string that is none: never a traceback, which could show a password."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'hidden'")
    try:
        other = database_url.replace(f"{postgres.user}:{postgres.password}", "stranger:hidden")
        for url, reason in ((other, "permission denied"), ("postgresql//u:hidden@db/x", "percent-encoded")):
            ended = longhaul("warehouse", "check", "--database-url", url)
            assert (ended.exit_code, reason in ended.stderr, "hidden" in ended.stderr) == (3, True, False), ended.stderr
            assert ended.stderr.count("Error: ") == 1
            assert "Traceback" not in ended.stderr
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP ROLE stranger")
