"""The CLI against an S3, a state machine, a Batch and a CloudWatch of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from longhaul.cli import main
from longhaul.cli.environment import Environment
from tests.unit.reimport.fake_step_functions import MACHINE, FakeStepFunctions
from tests.unit.reimport.fixtures import BUCKET, LOGS, aws, client, hook, s3, sfn

__all__ = ["aws", "hook", "s3", "sfn"]
OUTPUTS = {
    "EvalLogReimportStateMachineArn": MACHINE,
    "EvalLogReimportBucketName": BUCKET,
    "LogsBucketName": LOGS,
    "ImporterJobDefinitionName": "dev-hawk-eval-log-importer",
    "ImporterOnDemandQueueArn": "on-demand",
    "ImporterSpotQueueArn": "spot",
    "ImporterLogGroupName": "importer-logs",
    "SmallMaxBytes": "1000",
    "SmallVcpu": "0.5",
    "SmallMemoryMib": "1024",
    "FullVcpu": "2",
    "FullMemoryMib": "4096",
}
Longhaul = Callable[..., Result]


class FakeBatch:
    """Batch with the jobs that a test puts there."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def add(self, id_: str, key: str, run: str, status: str = "RUNNING", queue: str = "on-demand") -> dict[str, Any]:
        job = {
            "jobId": id_,
            "status": status,
            "queue": queue,
            "tags": {"longhaul:execution": run},
            "container": {"command": ["--key", key], "logStreamName": f"importer/default/{id_}"},
        }
        self.jobs.append(job)
        return job

    def get_paginator(self, call: str) -> FakeBatch:
        assert call == "list_jobs"
        return self

    def paginate(self, jobQueue: str, jobStatus: str | None = None, **_: Any) -> Iterator[dict[str, Any]]:  # noqa: N803
        wanted = [j for j in self.jobs if j["queue"] == jobQueue and jobStatus in (None, j["status"])]
        yield {"jobSummaryList": wanted}

    def describe_jobs(self, jobs: list[str]) -> dict[str, Any]:
        return {"jobs": [j for j in self.jobs if j["jobId"] in jobs]}


@pytest.fixture
def batch() -> FakeBatch:
    return FakeBatch()


@pytest.fixture
def longhaul(monkeypatch: pytest.MonkeyPatch, s3: Any, sfn: FakeStepFunctions, batch: FakeBatch) -> Longhaul:
    """Run `longhaul reimport ...` in a deployed environment dev."""
    logs = client("logs")
    logs.create_log_group(logGroupName=OUTPUTS["ImporterLogGroupName"])
    clients = {"s3": s3, "stepfunctions": sfn, "batch": batch, "logs": logs}
    monkeypatch.setattr(Environment, "client", lambda self, service: clients[service])
    monkeypatch.setattr(Environment, "outputs", OUTPUTS)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("LONGHAUL_ENV", "dev")

    def run(*arguments: str, **more: Any) -> Result:
        return CliRunner().invoke(main, ["reimport", *arguments], **more)

    return run
