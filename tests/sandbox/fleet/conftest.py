"""A fleet of real worker processes on the sandbox's S3, as its operator runs it: by the command line only."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox import surroundings
from tests.sandbox.conftest import Bare, clean_environment

LEASE_SECONDS = 6.0


class Worker:
    """A process of `longhaul fleet worker` on a host of its own: a folder, and a name."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet, self.name = fleet, name
        self.directory = fleet.path / name
        self.directory.mkdir(exist_ok=True)
        self.replaced = False  # whether another took its place
        self.log = open(fleet.path / f"{name}.log", "ab")  # noqa: SIM115
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "longhaul.cli", "fleet", "worker", fleet.queue),
                *("--results", fleet.results, "--directory", str(self.directory)),
            ],
            env=fleet.environment,
            cwd=surroundings.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    def family(self) -> list[psutil.Process]:
        """It and all that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def signal(self, number: int) -> None:
        """To all of the host at once, as when it vanishes or stands still."""
        for one in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def notice(self) -> None:
        """A rehearsed interruption notice."""
        (self.directory / "interruption-notice").write_text("{}")

    def end(self) -> None:
        """Leave nothing."""
        self.signal(signal.SIGKILL)
        self.process.wait(timeout=30)
        self.log.close()


class Fleet:
    """A queue and its workers."""

    def __init__(self, bare: Bare, path: Path) -> None:
        self.path, self.queue = path, "q"
        self.s3 = bare.client("s3")
        self.bucket = f"fleet-{uuid.uuid4().hex}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.results = f"s3://{self.bucket}/bench/stack/"
        self.environment = {
            **clean_environment(path / "sandbox"),
            **bare.env,
            "LONGHAUL_FLEET_TEST_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        self.workers: list[Worker] = []

    def run(self, *arguments: str, ends: int | None = 0) -> subprocess.CompletedProcess[str]:
        """`longhaul …`."""
        ended = subprocess.run(
            [sys.executable, "-m", "longhaul.cli", *arguments],
            env=self.environment,
            cwd=surroundings.ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ends is None or ended.returncode == ends, ended.stderr
        return ended

    def publish(self, config: str) -> None:
        """Publish the queue."""
        file = self.path / "config.toml"
        file.write_text(config)
        self.run("fleet", "publish", self.queue, "--config", str(file), "--results", self.results, "--api-slots", "4")

    def status(self) -> Any:
        """What `fleet status --json` says."""
        return json.loads(
            self.run("fleet", "status", self.queue, "--results", self.results, "--json", ends=None).stdout
        )

    def start(self, name: str) -> Worker:
        """Start a worker."""
        worker = Worker(self, name)
        self.workers.append(worker)
        return worker

    def wait(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Until every worker has ended."""
        end = time.monotonic() + seconds
        while running := [one for one in self.workers if one.process.poll() is None]:
            assert time.monotonic() < end, f"still running: {[one.name for one in running]}: {self.logs()}"
            each()
            time.sleep(0.1)

    def logs(self) -> str:
        """The last of what all of them said."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in self.path.glob("*.log")
        )

    def objects(self, prefix: str) -> dict[str, Any]:
        """Every JSON object below a prefix of the stack's location, by its key without it."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"bench/stack/{prefix}")
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        read = {key: self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}
        wanted = {key: body for key, body in read.items() if key.endswith(".json") or "/claims/" in key}
        return {key.removeprefix("bench/stack/"): json.loads(body) for key, body in wanted.items()}


@pytest.fixture
def fleet(bare: Bare, tmp_path: Path) -> Iterator[Fleet]:
    """An empty one."""
    fleet = Fleet(bare, tmp_path)
    yield fleet
    for worker in fleet.workers:
        worker.end()
