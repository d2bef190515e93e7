"""The sandbox's one server process: moto with all that it lacked, the warehouse, and the deployed stacks.

Steps that do not need each other run side by side. The process holds its folder's lock as long as it lives; whatever
it started ends with it (`sandbox.keeper`, `sandbox.postgres`).
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox import deployment, postgres, processes, self_check, surroundings
from sandbox.state import Folder, SandboxError

WAREHOUSE_SECRET = "sandbox-warehouse"
OUTPUT_OF_ENV = {
    "LOGS_BUCKET": "LogsBucketName",
    "REIMPORT_BUCKET": "EvalLogReimportBucketName",
    "STATE_MACHINE_ARN": "EvalLogReimportStateMachineArn",
}


class Progress:
    """Lines on standard error, each with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """One line."""
        print(f"[{time.monotonic() - self._start:5.1f} s] {text}", file=sys.stderr, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """A line when a step is done."""
        began = time.monotonic()
        yield
        self.say(f"{text} ({time.monotonic() - began:.1f} s)")


class Server:
    """Starts, resets and stops everything."""

    def __init__(self, folder: Folder, *, port: int, postgres_port: int) -> None:
        self.folder, self.path = folder, folder.path
        self._port, self._postgres_port = port, postgres_port
        self._warehouse: postgres.Server | None = None
        self._keeper: processes.Keeper | None = None
        self._wishes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(6, thread_name_prefix="start")

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP; SIGUSR1 resets."""
        for number, wish in (
            (signal.SIGINT, "stop"),
            (signal.SIGTERM, "stop"),
            (signal.SIGHUP, "stop"),
            (signal.SIGUSR1, "reset"),
        ):
            signal.signal(number, lambda *_, wish=wish: self._wishes.put(wish))
        try:
            self.folder.write(pid=os.getpid(), status="starting", generation=0, env={}, outputs={})
            if self._until_done(self._start) == "stop":
                return
            self._ready()
            while (wish := self._wishes.get()) != "stop":
                self.folder.write(status="starting")
                if self._until_done(self._reset) == "stop":
                    return
                self._ready()
        except BaseException as error:
            self.folder.write(status="failed", error=str(error))
            raise
        finally:
            self._stop()

    def _until_done(self, work: Callable[[], None]) -> str:
        """Do the work in another thread, so that a signal is heard at once; returns "stop" when one came."""
        done: Future[None] = self._pool.submit(work)
        done.add_done_callback(lambda _: self._wishes.put("done"))
        while True:
            wish = self._wishes.get()
            if wish == "stop":
                return wish
            if wish == "done":
                done.result()
                return wish

    # ---- start -------------------------------------------------------------------------------------------------------
    def _start(self) -> None:
        self.progress = Progress()
        listener = _listen(self._port)
        port = listener.getsockname()[1]
        os.environ["MOTO_PORT"] = str(port)  # before moto is imported
        os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = surroundings.region()
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
            os.environ.pop(name, None)
        os.environ.update(surroundings.NO_PROFILE)
        self._keeper = processes.install(self.folder.log)
        self.folder.write(env=self._env({}))
        assembly = self._pool.submit(self._synthesise)
        warehouse = self._pool.submit(self._start_warehouse)
        with self.progress.step(f"AWS endpoint {surroundings.endpoint()}"):
            serve(listener, self.path)
        checked = self._pool.submit(self_check.conditional_writes, surroundings.client("s3"))
        bootstrapped = self._pool.submit(self._bootstrap)
        self._warehouse = warehouse.result()
        checked.result()
        self._deploy(assembly, bootstrapped)

    def _start_warehouse(self) -> postgres.Server:
        try:
            with self.progress.step("Postgres"):
                self._warehouse = postgres.start(self.path / "postgres", self._postgres_port)
        except postgres.PostgresError as error:
            raise SandboxError(
                f"{error}; choose another with --postgres-port, or look into {self.path / 'postgres'}"
            ) from error
        with self.progress.step("warehouse migrated"):
            self._migrate()
        return self._warehouse

    def _migrate(self) -> None:
        assert self._warehouse is not None  # noqa: S101  # for the type checker
        deployment.python(
            self.path, "longhaul.cli", "warehouse", "migrate", extra={"DATABASE_URL": self._warehouse.url}
        )

    def _synthesise(self) -> Path:
        with self.progress.step("stacks synthesised"):
            return deployment.synthesise(self.path)

    def _bootstrap(self) -> None:
        with self.progress.step("CDK bootstrapped"):
            deployment.bootstrap(self.path)

    def _deploy(self, assembly: Future[Path], bootstrapped: Future[None]) -> None:
        self._put_secret()
        bootstrapped.result()
        folder = assembly.result()
        with self.progress.step("stacks deployed"):
            outputs = deployment.deploy(self.path, folder)
        self.folder.write(env=self._env(outputs), outputs=outputs)

    def _put_secret(self) -> None:
        found = self._warehouse
        assert found is not None  # noqa: S101  # for the type checker
        value = {
            "engine": "postgres",
            "host": found.host,
            "port": found.port,
            "username": found.user,
            "password": found.password,
            "dbname": found.database,
        }
        surroundings.client("secretsmanager").create_secret(Name=WAREHOUSE_SECRET, SecretString=json.dumps(value))

    def _env(self, outputs: dict[str, str]) -> dict[str, str]:
        found = {name: outputs[output] for name, output in OUTPUT_OF_ENV.items() if output in outputs}
        url = {"DATABASE_URL": self._warehouse.url} if self._warehouse else {}
        return {**surroundings.aws_environment(), **url, "LONGHAUL_ENV": "sandbox", **found}

    def _ready(self) -> None:
        generation = self.folder.read().get("generation", 0)
        self.folder.write(status="ready", generation=generation + 1)
        self.progress.say(f"ready: `longhaul sandbox env` prints how to reach it; state in {self.path}")

    # ---- reset and stop ----------------------------------------------------------------------------------------------
    def _reset(self) -> None:
        """Everything as after `up`: no job, no object, no row, freshly deployed from the sources as they are now."""
        from moto.moto_api._internal.models import moto_api_backend

        self.progress = Progress()
        assert self._keeper is not None  # noqa: S101  # for the type checker
        with self.progress.step("jobs ended, AWS emptied"):
            self._keeper.kill_all()
            moto_api_backend.reset()
        assembly, bootstrapped = self._pool.submit(self._synthesise), self._pool.submit(self._bootstrap)
        with self.progress.step("warehouse emptied"):
            self._empty_warehouse()
        self._deploy(assembly, bootstrapped)

    def _empty_warehouse(self) -> None:
        import psycopg
        from psycopg import sql

        found = self._warehouse
        assert found is not None  # noqa: S101  # for the type checker
        name = sql.Identifier(found.database)
        with psycopg.connect(found.url_for("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        self._migrate()

    def _stop(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
        if self._warehouse is not None:
            self._warehouse.stop()
        failed = self.folder.read().get("status") == "failed"
        self.folder.empty(but=("server.log", *(("state.json",) if failed else ())))
        self.folder.release()


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=256)
    except OSError as error:
        raise SandboxError(
            f"port {port} for the AWS endpoint cannot be used: {error.strerror}; choose another with --port, or none"
        ) from error
    return listener


def serve(listener: socket.socket, folder: Path) -> Any:
    """Serve moto, with every part of the sandbox in it, on a socket that listens already. MOTO_PORT must be set."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    install(folder)
    host, port = listener.getsockname()[:2]
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        host, port, application, threaded=True, request_handler=MotoRequestHandler, fd=listener.fileno()
    )
    server.daemon_threads = True  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


def install(folder: Path) -> None:
    """Put every part of the sandbox into moto."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s %(message)s", level=logging.WARNING)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    from sandbox import batch, cloudformation, events, functions, s3, step_functions

    batch.install()
    events.install()
    functions.install(folder / "functions")
    s3.install()
    step_functions.install()
    cloudformation.install()  # last: it keeps what the others have put in place
