"""What fails around the importer: network, server, disks. All is whole old or whole new, and the exit code right."""

from __future__ import annotations

import errno
import io
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from longhaul.evallog import log as logs
from longhaul.importer import rows
from longhaul.importer.job import Job, run
from longhaul.importer.outcome import Outcome
from longhaul.warehouse import runs
from longhaul.warehouse.migrate import migrate
from sandbox import postgres as local_postgres
from tests.contract.warehouse.proxy import Proxy
from tests.contract.warehouse.support import attempt, contents, imported, values
from tests.logs import header, sample, write_log


def two_versions(folder: Path) -> tuple[Path, Path]:
    """Two versions of one log, in files of their own."""
    old = [sample(n, uuid=f"u{n}", input=f"old {n}" * 99) for n in range(40)]
    new = [sample(n, uuid=f"u{n}", input=f"new {n}" * 99) for n in range(5, 45)]
    for name, samples in (("old", old), ("new", new)):
        (folder / name).mkdir()
        write_log(folder / name / "a.eval", samples, head=header(samples=40, eval={"task_version": name}))
    return folder / "old" / "a.eval", folder / "new" / "a.eval"


CUTS = {
    "COPY": {"word": b"COPY incoming_message", "after_bytes": 1000},
    "upsert": {"word": b"INSERT INTO sample AS old"},
    "COMMIT": {"word": b"COMMIT\0"},
    "the answer to COMMIT": {"word": b"COMMIT\0", "answer_lost": True},
}


@pytest.mark.parametrize("cut", CUTS)
def test_w2_a_connection_that_is_cut(
    database_url: str, fresh_database: Callable[[], str], tmp_path: Path, monkeypatch, cut: str
) -> None:
    """First without patience: exit 20, whole old or whole new. Then with it: the import starts over and ends well."""
    old, new = two_versions(tmp_path)
    path = tmp_path / "a.eval"
    states = []
    for version in (old, new):
        path.write_bytes(version.read_bytes())
        os.utime(path, ns=(1, 1 if version is old else 2))
        imported(url := fresh_database(), path)
        states.append(contents(url))
    path.write_bytes(old.read_bytes())
    os.utime(path, ns=(1, 1))
    imported(database_url, path)
    path.write_bytes(new.read_bytes())
    os.utime(path, ns=(2, 2))

    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "0")
    with Proxy(database_url, **CUTS[cut]) as proxy:
        result = attempt(proxy.url, path)
    assert (proxy.cuts, result.outcome) == (1, Outcome.WAREHOUSE_UNAVAILABLE), result
    assert result.rows_changed is None  # not known
    eventually(lambda: contents(database_url) == states[cut == "the answer to COMMIT"])

    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "30")
    with Proxy(database_url, **CUTS[cut]) as proxy:
        result = attempt(proxy.url, path, force=True)
    assert (proxy.cuts, result.outcome) == (1, Outcome.IMPORTED), result
    assert contents(database_url) == states[1]


def test_an_unknown_commit_is_found_out_not_guessed(database_url: str, tmp_path: Path, monkeypatch) -> None:
    """The commit was done, its answer was lost: the next attempt finds the log unchanged."""
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "0")
    path = write_log(tmp_path / "a.eval", [sample(1)])
    with Proxy(database_url, b"COMMIT\0", answer_lost=True) as proxy:
        assert attempt(proxy.url, path).outcome.exit_code == 20
    eventually(lambda: values(database_url, "SELECT count(*) FROM sample") == [1])
    assert attempt(database_url, path).outcome is Outcome.UNCHANGED


def eventually(condition: Callable[[], bool]) -> None:
    """A server takes a moment to notice that its client is gone."""
    for _ in range(100):
        if condition():
            return
        time.sleep(0.05)
    assert condition()


def test_a_database_that_restarts_in_the_middle(tmp_path: Path, monkeypatch) -> None:
    """Stopped and started again while a log is staged, and while it is applied."""
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "60")
    folder = tmp_path / "postgres"
    server = local_postgres.start(folder)
    try:
        url, port = server.url, server.port
        migrate(url)
        path = write_log(tmp_path / "a.eval", [sample(n) for n in range(30)])
        for module, name in ((rows, "sample_row"), (runs, "record")):
            original, calls = getattr(module, name), []

            def restart_first(*arguments: Any, original: Any = original, calls: list[int] = calls) -> Any:
                nonlocal server
                calls.append(1)
                if len(calls) == 1:
                    server.stop()
                    server = local_postgres.start(folder, port)
                return original(*arguments)

            with monkeypatch.context() as patch:
                patch.setattr(module, name, restart_first)
                result = attempt(url, path, force=True)
            assert result.outcome is Outcome.IMPORTED, result
            assert len(calls) > 1
        assert values(url, "SELECT count(*) FROM sample") == [30]
        assert values(url, "SELECT DISTINCT outcome FROM import_run") == ["imported"]
    finally:
        server.stop()


STATES = {
    "53100": (20, "disk full"),
    "53200": (20, "out of memory"),
    "53300": (20, "too many connections"),
    "57014": (20, "a statement's time is up"),
    "57P01": (20, "a restart"),
    "40001": (20, "serialization"),
    "55P03": (20, "a lock's time is up"),
    "25006": (20, "a standby"),
    "58030": (20, "input or output"),
    "XX000": (20, "the server's own trouble"),
    "23505": (12, "a unique key"),
    "42501": (12, "no privilege"),
    "54000": (12, "a limit of Postgres"),
}


@pytest.mark.parametrize("state", STATES, ids=[meaning for _, meaning in STATES.values()])
def test_exit_codes_of_the_warehouses_errors(database_url: str, tmp_path: Path, monkeypatch, state: str) -> None:
    """20 when the warehouse is at fault, 12 when it refuses the data; the server's own words are the reason."""
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "0")
    failing(database_url, state)
    result = attempt(database_url, write_log(tmp_path / "a.eval", [sample(1)]))
    assert (result.outcome.exit_code, result.reason) == (STATES[state][0], "made up")
    assert values(database_url, "SELECT count(*) FROM eval") == [0]
    assert values(database_url, "SELECT exit_code FROM import_run") == [STATES[state][0]]


def failing(url: str, state: str) -> None:
    """Every insert of a sample fails with this SQLSTATE."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN RAISE 'made up' USING ERRCODE = '{state}'; END$$"
        )
        connection.execute("CREATE TRIGGER fail BEFORE INSERT ON sample FOR EACH ROW EXECUTE FUNCTION fail()")


@pytest.mark.parametrize("place", ["user", "password"])
def test_a_refused_password_is_said_at_once(database_url: str, tmp_path: Path, monkeypatch, place: str) -> None:
    """This process has no other; the next job reads the secret anew (exit 20). A server that is gone is waited for."""
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "60")
    monkeypatch.setattr("longhaul.importer.warehouse_session.Patience.pause", lambda self: pytest.fail("waited"))
    user, password = re.match(r"postgresql://([^:@/]+):([^:@/]+)@", database_url).groups()
    wrong = database_url.replace(f"//{user}:", "//nobody:") if place == "user" else database_url.replace(password, "no")
    result = attempt(wrong, write_log(tmp_path / "a.eval", [sample(1)]))
    assert (result.outcome, result.outcome.exit_code) == (Outcome.WAREHOUSE_UNAVAILABLE, 20)
    named = "nobody" if place == "user" else user
    assert result.reason == f'the warehouse refuses the log-in: password authentication failed for user "{named}"'


def test_a_disk_that_is_full_when_attachments_are_put_aside(database_url: str, tmp_path: Path, monkeypatch) -> None:
    """Exit 12 with a reason and a row, not an error nobody foresaw."""

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("longhaul.evallog.log.MAX_WHOLE_SAMPLE_BYTES", 10)
    monkeypatch.setattr("longhaul.evallog.attachments.tempfile.TemporaryFile", Full)
    path = write_log(tmp_path / "a.eval", [sample(1, attachments={"a" * 32: "x"})])
    result = attempt(database_url, path)
    assert (result.outcome, "disk is full" in str(result.reason)) == (Outcome.REFUSED, True), result
    assert values(database_url, "SELECT outcome FROM import_run") == ["refused"]
    assert values(database_url, "SELECT count(*) FROM eval") == [0]


def test_an_error_nobody_foresaw_leaves_a_row_too(database_url: str, tmp_path: Path, monkeypatch) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1)])
    monkeypatch.setattr("longhaul.importer.rows.sample_row", lambda _: 1 / 0)
    result = attempt(database_url, path)
    assert (result.outcome.exit_code, result.reason) == (1, "ZeroDivisionError: division by zero")
    assert values(database_url, "SELECT reason FROM import_run") == [result.reason]


def test_a_job_that_freezes_in_its_transaction_is_cut_off(database_url: str, tmp_path: Path, monkeypatch) -> None:
    """It would hold its locks for hours; when it wakes up it starts over."""
    original, frozen = runs.record, []

    def freeze_first(*arguments: Any) -> None:
        if not frozen:
            frozen.append(1)
            time.sleep(1.0)
        original(*arguments)

    monkeypatch.setattr("longhaul.warehouse.writer.IDLE_TIMEOUT_MS", 300)
    monkeypatch.setattr(runs, "record", freeze_first)
    path = write_log(tmp_path / "a.eval", [sample(1)])
    worker = threading.Thread(target=attempt, args=(database_url, path), daemon=True)
    worker.start()
    eventually(lambda: bool(frozen))
    time.sleep(0.6)
    with psycopg.connect(database_url) as other:
        other.execute("SET lock_timeout = 100")
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('eval:eval-1', 0))")  # it is free
    worker.join(30)
    assert values(database_url, "SELECT outcome FROM import_run") == ["imported"]


class Bucket:
    """One object that changes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get_object(self, **request: Any) -> dict[str, Any]:
        data = self.path.read_bytes()
        modified = datetime(2026, 1, 1, tzinfo=UTC)
        return {
            "Body": io.BytesIO(data),
            "ETag": f'"{hash(data)}"',
            "ContentLength": len(data),
            "LastModified": modified,
        }


def test_w1_an_older_version_that_takes_longer_does_not_replace_the_newer_one(
    database_url: str, fresh_database: Callable[[], str], tmp_path: Path, monkeypatch
) -> None:
    """The first import fetched the old version; before it is done the second fetched and committed the new one."""
    old, new = two_versions(tmp_path)
    bucket = Bucket(old)
    monkeypatch.setattr("longhaul.importer.client.s3", lambda: bucket)
    job = Job(conninfo=database_url, bucket="b", key="k.eval", force=True)
    assert run(job).outcome is Outcome.IMPORTED  # a version before both
    bucket.path = write_log(tmp_path / "middle.eval", [sample(1)])
    open_log, nested = logs.open_log, []

    def slow(*arguments: Any, **options: Any) -> Any:
        if not nested:
            nested.append(1)
            bucket.path = new
            nested.append(run(job))
        return open_log(*arguments, **options)

    monkeypatch.setattr(logs, "open_log", slow)
    result = run(job)
    assert result.outcome is Outcome.IMPORTED, result
    assert nested[1].outcome is Outcome.IMPORTED
    assert values(database_url, "SELECT task_version FROM eval") == ["new"]
    other = Job(conninfo=fresh_database(), bucket="b", key="k.eval")
    assert run(other).outcome is Outcome.IMPORTED
    assert contents(database_url) == contents(other.conninfo)


def test_the_transaction_is_read_committed_whatever_the_databases_default(
    database_url: str, tmp_path: Path, monkeypatch
) -> None:
    """Decisions are made on what others committed before a lock was had; a snapshot from before would not show it."""
    original, seen = runs.record, []

    def look(connection: Any, row: Any) -> None:
        seen.append(connection.execute("SHOW transaction_isolation").fetchone()[0])
        original(connection, row)

    monkeypatch.setattr(runs, "record", look)
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    imported(database_url, write_log(tmp_path / "a.eval", [sample(1)]))
    assert seen == ["read committed"]


def test_a_table_of_somebody_elses_is_left_alone(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE incoming_sample AS SELECT 1 AS mine")
    imported(database_url, write_log(tmp_path / "a.eval", [sample(1)]))
    assert values(database_url, "SELECT mine FROM incoming_sample") == [1]
