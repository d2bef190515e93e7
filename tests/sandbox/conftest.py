"""Two sandboxes for the tests: the whole one, deployed, and a bare endpoint without stacks; each is a process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from botocore.config import Config

from sandbox import surroundings

Found = TypeVar("Found")
START_SECONDS = 180


def until(what: Callable[[], Found], seconds: float = 60) -> Found:
    """Wait for something to come true, and return it."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"it did not come true within {seconds} s"
        time.sleep(0.05)
    return found


def clean_environment(folder: Path) -> dict[str, str]:
    """Of a user without any AWS set-up, whose sandbox is `folder`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PG", "LONGHAUL_", "MOTO_"))}
    return {**kept, "LONGHAUL_SANDBOX_DIR": str(folder)}


class Endpoint:
    """A running sandbox, seen from outside."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.client = cache(self._client)

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.env["AWS_ENDPOINT_URL"],
            region_name=self.env["AWS_REGION"],
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64),
        )


class Sandbox(Endpoint):
    """The whole one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = clean_environment(folder)
        state = json.loads((folder / "state.json").read_text())
        super().__init__(state["env"])
        self.outputs: dict[str, str] = state["outputs"]

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """`longhaul …`, as the user types it."""
        return self.command(sys.executable, "-m", "longhaul.cli", *arguments, **options)

    def command(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Any command, with what `longhaul sandbox env` prints in its environment."""
        options = {"timeout": 120, "check": False, **options}
        return subprocess.run(
            command,
            env={**self.environment, **self.env, "AWS_PAGER": ""},
            cwd=options.pop("cwd", surroundings.ROOT),
            capture_output=True,
            text=True,
            **options,
        )


def sandbox_command(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """`python -m sandbox …` on a folder."""
    return subprocess.run(
        [sys.executable, "-m", "sandbox", *arguments],
        env={**clean_environment(folder), **changes},
        cwd=surroundings.ROOT,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox for the whole session, deployed; tests share it and use names of their own."""
    folder = tmp_path_factory.mktemp("deployed") / "sandbox"
    started = sandbox_command(folder, "up", "--detach")
    try:
        assert started.returncode == 0, started.stderr
        yield Sandbox(folder)
    finally:
        sandbox_command(folder, "down")


class Bare(Endpoint):
    """Just the endpoint: no stacks, no warehouse."""

    def __init__(self, env: dict[str, str], pid: int, folder: Path) -> None:
        super().__init__(env)
        self.pid, self.folder = pid, folder


@contextlib.contextmanager
def bare_endpoint(folder: Path) -> Iterator[Bare]:
    """Start one, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.bare_server", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=surroundings.ROOT,
        env=clean_environment(folder),
    )
    try:
        assert process.stdout is not None
        yield Bare(json.loads(process.stdout.readline()), process.pid, folder)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    """An endpoint for the whole session, up in two seconds."""
    with bare_endpoint(tmp_path_factory.mktemp("bare")) as endpoint:
        yield endpoint
