"""A queue's documents on a host, an S3, and the commands as a worker starts them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from longhaul.benchmark.jobs import plan
from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.runtime import real
from tests.sandbox.conftest import Bare, bare_endpoint, clean_environment

ROOT = Path(__file__).parents[3]
_buckets = itertools.count(1)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    """An S3."""
    with bare_endpoint(tmp_path_factory.mktemp("bare")) as endpoint:
        yield endpoint


class Bench:
    """A host with the documents of a queue, whose only job is `job`."""

    def __init__(self, folder: Path, bare: Bare) -> None:
        self.folder, self.s3 = folder, bare.client("s3")
        self.bucket = f"bench-{next(_buckets)}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.environment = {**clean_environment(folder), **bare.env}
        self.deadline = DeadlineFile.create(folder / "deadline")
        self.lasts(600)
        self.processes: list[subprocess.Popen[str]] = []

    def lasts(self, seconds: float) -> None:
        """Move the deadline."""
        self.deadline.write(real().clock() + seconds)

    def publish(self, command: str, *, repetitions: int = 5, adapter: str = "command") -> None:
        """Plan a job of one case, a line of Python to which `{trial}` is an argument."""
        words = json.dumps([sys.executable, "-S", "-c", command, "{trial}"])
        config = (
            f'[run]\nid = "run-1"\nrepetitions = {repetitions}\n[[case]]\nname = "c"\nadapter = "{adapter}"\n'
            f'parameters = {{ command = {words} }}\n[[job]]\nid = "job"\n'
        )
        files = plan(config.encode(), demand=lambda case: 0, versions={}).files
        (self.folder / "queue").mkdir(exist_ok=True)
        for name, body in files.items():
            (self.folder / "queue" / name).write_bytes(body)

    def attempt(self, number: int) -> Path:
        """Folder of an attempt."""
        return self.folder / "results" / "job" / "g0" / f"attempt-{number}"

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `longhaul benchmark …` in a group of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "longhaul.cli", "benchmark", *arguments],
            env={**self.environment, **environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def ended(self, process: subprocess.Popen[str], code: int, seconds: float = 60) -> str:
        """Wait for its end, with that exit code; what it said."""
        said, _ = process.communicate(timeout=seconds)
        assert process.returncode == code, said
        return said

    def run(self, number: int, *resumed: int, checkpoint: bool = True, **environment: str) -> subprocess.Popen[str]:
        """Start an attempt as a worker does."""
        arguments = [*self.common(number), "--deadline", str(self.deadline.path)]
        for one in resumed:
            arguments += ["--resume", str(self.attempt(one))]
        if checkpoint:
            arguments += ["--checkpoint", f"{self.results}g0/attempt-{number}/"]
        trials = f"s3://{self.bucket}/bench/stack/runs/run-1/trials/"
        return self.start("run", *arguments, "--trials", trials, **environment)

    def report(self, number: int, code: int = 0) -> dict[str, Any]:
        """Report on attempts up to that one, as a worker does; what merged.json says."""
        process = self.start("report", *self.common(number), "--results", self.results, "--generations", "0..0")
        self.ended(process, code)
        path = self.attempt(number) / "merged.json"
        merged: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return merged

    def common(self, number: int) -> list[str]:
        """Options that all of these have."""
        queue, output = str(self.folder / "queue"), str(self.attempt(number))
        return ["--queue-directory", queue, "--job", "job", "--attempt", f"g0/attempt-{number}", "--output", output]

    @property
    def results(self) -> str:
        """Where the job's attempts are stored."""
        return f"s3://{self.bucket}/bench/stack/fleet/q/results/job/"

    def objects(self) -> Mapping[str, bytes]:
        """Everything in S3, by name below the job's results."""
        prefix = "bench/stack/fleet/q/results/job/"
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        assert all(key.startswith(prefix) for key in keys), "I9"
        return {
            key.removeprefix(prefix): self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys
        }

    def upload(self, number: int) -> None:
        """Upload what only the host has of an attempt, as a worker does at its end."""
        there = self.objects()
        for path in self.attempt(number).rglob("*"):
            name = path.relative_to(self.folder / "results" / "job").as_posix()
            if path.is_file() and name not in there:
                key = f"bench/stack/fleet/q/results/job/{name}"
                self.s3.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())


def until(what: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until it is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")


@pytest.fixture
def bench(tmp_path: Path, bare: Bare) -> Iterator[Bench]:
    """A host; whatever it started is dead afterwards."""
    bench = Bench(tmp_path, bare)
    yield bench
    for process in bench.processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    bench.deadline.close()
