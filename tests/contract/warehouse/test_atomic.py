"""W2: an importer that is killed or told to end at any moment leaves the whole old state or the whole new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.contract.warehouse.support import contents, imported, values
from tests.logs import header, sample, write_log

MOMENTS = 20
ROOT = Path(__file__).parents[3]


SIGTERM_WITHIN = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{inside}":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Interrupt())
"""


def start(url: str, path: Path, **environment: str) -> subprocess.Popen[str]:
    """The importer as Batch starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "longhaul.importer", "--file", str(path), "--force", "true"],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": url, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def version(number: int, count: int = 120) -> list[dict[str, Any]]:
    """One of two versions of a log, different in every sample."""
    return [sample(n, uuid=f"u{n}-{number if n % 3 else 0}", input=f"version {number}" * 50) for n in range(count)]


def said(url: str) -> dict[str, list[str]]:
    return {table: found for table, found in contents(url).items() if table != "import_run"}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
def test_w2_killed_at_twenty_moments(database_url: str, fresh_database, tmp_path: Path, kind: signal.Signals) -> None:
    path, states = tmp_path / "a.eval", []
    for number in (1, 2):
        write_log(path, version(number), head=header(samples=120, eval={"task_version": number}))
        os.utime(path, ns=(number, number))
        imported(url := fresh_database(), path)
        states.append(said(url))
        if number == 1:
            imported(database_url, path)
    process = start(fresh_database(), path)
    began = time.monotonic()
    process.communicate(timeout=60)
    takes = time.monotonic() - began

    before, whole_new = states
    interrupted = 0
    for moment in range(MOMENTS):
        process = start(database_url, path)
        time.sleep(takes * (moment + 0.5) / MOMENTS)
        process.send_signal(kind)
        out, _ = process.communicate(timeout=10)  # SIGTERM: within 10 s
        now = said(database_url)
        assert now in (before, whole_new)
        if process.returncode == 0:
            assert now == whole_new  # it was faster
            continue
        interrupted += 1
        if kind == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode in (143, -signal.SIGTERM)  # the latter: before Python was up
            if process.returncode == 143 and out:
                assert json.loads(out)["outcome"] == "terminated"
        before = now if now == whole_new else before
    assert interrupted > MOMENTS // 3
    process = start(database_url, path)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert said(database_url) == whole_new


@pytest.mark.parametrize("inside", ["asyncio.locks", "psycopg.pq"])
def test_sigterm_while_the_driver_is_loaded(database_url: str, tmp_path: Path, inside: str) -> None:
    """Half imported it could not be imported again to leave a row, and exit 1 would say that something is broken."""
    path = write_log(tmp_path / "a.eval", [sample(1)])
    (tmp_path / "sitecustomize.py").write_text(SIGTERM_WITHIN.format(inside=inside))
    process = start(database_url, path, PYTHONPATH=str(tmp_path))
    _, talk = process.communicate(timeout=10)
    assert process.returncode == 143
    assert "Traceback" not in talk


def test_sigterm_while_waiting_for_a_lock_rolls_back_at_once_and_leaves_a_row(
    database_url: str, tmp_path: Path
) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1)])
    with psycopg.connect(database_url) as blocker:
        blocker.execute("SELECT pg_advisory_xact_lock(hashtextextended('eval:eval-1', 0))")
        process = start(database_url, path)
        wait_for_waiting(database_url)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=9)
    assert process.returncode == 143
    assert json.loads(out)["exit_code"] == 143
    assert values(database_url, "SELECT count(*) FROM eval") == [0]
    assert values(database_url, "SELECT outcome FROM import_run") == ["terminated"]


def wait_for_waiting(url: str) -> None:
    """Until somebody waits for an advisory lock."""
    for _ in range(300):
        if values(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [0]:
            return
        time.sleep(0.05)
    raise AssertionError("nobody waits")
