"""The sandbox's Postgres: starts whatever was left behind, and never outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from sandbox import postgres

ROOT = Path(__file__).parents[2]


def servers(folder: Path) -> list[int]:
    """Processes of the server whose data lie in `folder`."""
    everyone = psutil.process_iter(["cmdline"])
    named = [one.pid for one in everyone if str(folder) in " ".join(one.info["cmdline"] or [])]
    return [pid for pid in named if pid != os.getpid()]


def gone(folder: Path) -> bool:
    """Whether all of them end within 15 s."""
    for _ in range(150):
        if not servers(folder):
            return True
        time.sleep(0.1)
    return False


def test_it_answers_with_a_password_over_tcp_and_keeps_its_rows(tmp_path: Path) -> None:
    server = postgres.start(tmp_path)
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url.replace(server.password, "wrong"))
        with pytest.raises(postgres.PostgresError, match="another process"):
            postgres.start(tmp_path)
        with pytest.raises(postgres.PostgresError, match=f"port {server.port}"):
            postgres.start(tmp_path / "other", port=server.port)
    finally:
        server.stop()
    server.stop()
    assert gone(tmp_path)
    again = postgres.start(tmp_path)
    try:
        with psycopg.connect(again.url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
    finally:
        again.stop()


def test_it_ends_when_its_owner_is_killed_and_starts_again_after_it(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 40) / "postgres"  # no unix socket has room for such a path
    code = (
        "import pathlib, time, sandbox.postgres\n"
        f"server = sandbox.postgres.start(pathlib.Path({str(deep)!r}))\n"
        "print(server.port, flush=True)\n"
        "time.sleep(99)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert int(owner.stdout.readline()) > 0
    assert servers(deep / "data")
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert gone(deep / "data")
    (deep / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")  # stale, and the pid is another program's by now
    postgres.start(deep).stop()


def test_settings_of_another_postgres_do_not_leak_in(tmp_path: Path, monkeypatch) -> None:
    for name, value in {
        "PGHOST": "elsewhere",
        "PGPORT": "1",
        "PGDATA": "/nowhere",
        "PGUSER": "x",
        "PGPASSWORD": "y",
    }.items():
        monkeypatch.setenv(name, value)
    server = postgres.start(tmp_path)
    try:
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT current_user, current_database()").fetchone() == ("longhaul", "warehouse")
    finally:
        server.stop()
