"""W4: many imports at once that share evals and samples end in one state, without a deadlock (case L17)."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import psycopg
import pytest

from longhaul.importer.outcome import Outcome, Result
from tests.contract.warehouse.support import attempt, contents, imported, values
from tests.logs import header, sample, write_log

STORMS = int(os.environ.get("LONGHAUL_STORMS", "2"))  # 20 by hand


def together(url: str, paths: list[Path]) -> list[Result]:
    """Import all at once."""
    barrier, results = threading.Barrier(len(paths)), []

    def one(path: Path) -> None:
        barrier.wait(30)
        results.append(attempt(url, path, force=True))

    threads = [threading.Thread(target=one, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(results) == len(paths)
    return results


@pytest.mark.parametrize("storm", range(STORMS))
def test_w4_case_l17_32_imports_at_once_of_logs_that_share_samples(
    database_url: str, fresh_database, tmp_path: Path, monkeypatch, storm: int
) -> None:
    """In random order, some logs twice: one final state, each import done at its first attempt, no deadlock."""
    draw = random.Random(storm)
    paths = []
    for number in range(28):
        uuids = draw.sample([f"u{n:02}" for n in range(30)], 12)
        samples = [sample(uuid, uuid=uuid, input=f"log {number}") for uuid in uuids]
        head = header(
            f"eval-{number % 11}", samples=12, eval={"created": f"2026-01-01T00:00:{draw.randint(0, 20):02}Z"}
        )
        paths.append(write_log(tmp_path / f"{number}.eval", samples, head=head))
    other = fresh_database()
    for path in draw.sample(paths, len(paths)):
        imported(other, path)
    pauses = []
    monkeypatch.setattr("longhaul.importer.job.Patience.pause", lambda self: not pauses.append(1))
    crowd = [*paths, *paths[:4]]
    results = together(database_url, draw.sample(crowd, len(crowd)))
    assert [result.outcome for result in results] == [Outcome.IMPORTED] * 32, results
    assert pauses == []
    assert values(database_url, "SELECT count(*) FROM import_run") == [32]
    assert max(result.seconds for result in results) < 60
    assert values(database_url, "SELECT count(*) FROM stale_log") == [0]
    assert contents(database_url) == contents(other)
    assert values(database_url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [0]


@pytest.mark.parametrize("patience_seconds", [0, 1])
def test_case_l16_a_write_that_always_deadlocks(
    database_url: str, tmp_path: Path, monkeypatch, patience_seconds: int
) -> None:
    """The third of twenty samples cannot be written, ever, for a deadlock.

    An attempt ends at that very statement: nothing is sent after it, so "transaction is aborted" never hides it, and
    nothing partial stays. A deadlock is the others' doing and passes, so the whole transaction is tried again within
    the importer's patience, and then by Batch (exit 20); at every end the deadlock is the reason that is reported.
    """
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", str(patience_seconds))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE tries")
        connection.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF NEW.id = '3' THEN"
            " PERFORM nextval('tries'); RAISE 'deadlock detected' USING ERRCODE = '40P01'; END IF; RETURN NEW; END$$"
        )
        connection.execute("CREATE TRIGGER fail BEFORE INSERT ON sample FOR EACH ROW EXECUTE FUNCTION fail()")
    sent = []
    execute = psycopg.Connection.execute

    def listen(self, query, *arguments, **options):
        sent.append(str(query))
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", listen)
    result = attempt(database_url, write_log(tmp_path / "a.eval", [sample(n) for n in range(20)]))
    monkeypatch.undo()
    assert (result.outcome, result.reason) == (Outcome.WAREHOUSE_UNAVAILABLE, "deadlock detected")
    assert values(database_url, "SELECT (SELECT count(*) FROM eval) + (SELECT count(*) FROM log)") == [0]
    assert values(database_url, "SELECT reason FROM import_run") == ["deadlock detected"]
    attempts = values(database_url, "SELECT last_value FROM tries")[0]
    assert (attempts == 1) if patience_seconds == 0 else (1 < attempts < 10)
    after = [sent[at + 1] for at, query in enumerate(sent[:-1]) if query.startswith("INSERT INTO sample AS old")]
    assert len(after) == attempts
    assert all(query.startswith(("SELECT etag", "INSERT INTO import_run", "DROP TABLE")) for query in after), after


def test_a_warehouse_that_comes_back_is_waited_for(database_url: str, tmp_path: Path, monkeypatch) -> None:
    """The connection is cut in the middle of the transaction: the importer starts over by itself."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE tries")
        connection.execute(
            "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " IF nextval('tries') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END$$"
        )
        connection.execute("CREATE TRIGGER cut AFTER INSERT ON score FOR EACH STATEMENT EXECUTE FUNCTION cut()")
    imported(database_url, write_log(tmp_path / "a.eval", [sample(1)]))
    assert values(database_url, "SELECT count(*) FROM sample") == [1]


def test_rows_that_the_warehouse_refuses_are_exit_12(database_url: str, tmp_path: Path) -> None:
    long = write_log(
        tmp_path / "a.eval", [sample(1, scores={"".join(random.Random(1).choices("abcdefgh", k=9000)): {"value": 1}})]
    )
    tokens = write_log(tmp_path / "b.eval", [sample(1, model_usage={"m": {"input_tokens": 2**64}})])
    for path, reason in ((long, "index row"), (tokens, "input_tokens: a number is out of range")):
        result = attempt(database_url, path)
        assert (result.outcome, reason in str(result.reason)) == (Outcome.REFUSED, True), result
    assert values(database_url, "SELECT count(*) FROM eval") == [0]
