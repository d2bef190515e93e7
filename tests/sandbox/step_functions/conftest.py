"""moto in process, with this package's executions, and jobs that a test ends as it likes: no server and no process."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.batch import models as batch_models
from moto.events.models import EventsBackend

from sandbox import step_functions
from sandbox.step_functions import clock

REGION = "us-east-1"
ACCOUNT = "123456789012"
BUCKET = "reimport"
MACHINE = "sandbox-hawk-eval-log-reimport"
MACHINE_ARN = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{MACHINE}"

step_functions.install()


class FakeJob:
    """A Batch job without a process: it ends when and how `Jobs.ends` says."""

    jobs: Jobs

    def __init__(self, name: str, definition: Any, queue: Any, backend: Any, **given: Any) -> None:
        self.job_name, self.job_id = name, f"job-{len(self.jobs.all)}"
        self.arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:job/{self.job_id}"
        self.command = given["container_overrides"]["command"]
        self.given, self.status, self.reason = given, "RUNNING", ""
        self.ended = threading.Event()
        self.jobs.all.append(self)

    @property
    def key(self) -> str:
        return str(self.command[self.command.index("--key") + 1])

    def start(self) -> None:
        self.jobs.started(self)

    def is_alive(self) -> bool:
        return False

    def end(self, status: str, reason: str = "Essential container in task exited") -> None:
        with self.jobs.lock:
            if self.ended.is_set():
                return
            self.status, self.reason = status, reason
            self.jobs.alive -= 1
            self.ended.set()

    def terminate(self, reason: str) -> None:
        self.jobs.terminated[self.key] = reason
        self.end("FAILED", reason)

    def describe(self) -> dict[str, Any]:
        container = {"command": self.command, "exitCode": 0 if self.status == "SUCCEEDED" else 11, "notInTheApi": 1}
        attempts = [{"container": {"exitCode": container["exitCode"]}, "statusReason": self.reason}]
        named = {"jobName": self.job_name, "jobId": self.job_id, "jobArn": self.arn, "tags": self.given["tags"] or {}}
        return {
            **named,
            "status": self.status,
            "statusReason": self.reason,
            "stoppedAt": 1,
            "attempts": attempts,
            "container": container,
        }


class Jobs:
    """Decides about the jobs: at once (the default), or when the test calls `end`."""

    def __init__(self) -> None:
        self.all: list[FakeJob] = []
        self.lock = threading.Lock()
        self.alive = self.peak = 0
        self.held = False
        self.outcome: Callable[[str], str] = lambda key: "SUCCEEDED"
        self.reason = "Essential container in task exited"
        self.terminated: dict[str, str] = {}

    def started(self, job: FakeJob) -> None:
        with self.lock:
            self.alive += 1
            self.peak = max(self.peak, self.alive)
        if not self.held:
            job.end(self.outcome(job.key), self.reason)

    def open(self) -> list[FakeJob]:
        return [job for job in list(self.all) if not job.ended.is_set()]

    def end(self, number: int = 10**6) -> None:
        """End that many of the jobs that are open now."""
        for job in self.open()[:number]:
            job.end(self.outcome(job.key), self.reason)

    def release(self) -> None:
        """No longer hold any job."""
        self.held = False
        self.end()

    def keys(self) -> list[str]:
        return [job.key for job in self.all]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    found = Jobs()
    monkeypatch.setattr(FakeJob, "jobs", found, raising=False)
    monkeypatch.setattr(batch_models, "Job", FakeJob)
    monkeypatch.setattr(batch_models.BatchBackend, "get_job_definition", lambda self, name: name)
    monkeypatch.setattr(batch_models.BatchBackend, "get_job_queue", lambda self, name: name)
    return found


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    before = set(threading.enumerate())
    with mock_aws():
        yield
    clock.use(None)
    left = [t for t in set(threading.enumerate()) - before if t.name.startswith(("execution ", "child "))]
    assert not [t for t in left if t.is_alive()], "a reset leaves no thread behind"


class Clock:
    def __init__(self) -> None:
        self.shift = timedelta()
        clock.use(lambda: datetime.now(tz=UTC) + self.shift)

    def advance(self, **amount: float) -> None:
        self.shift += timedelta(**amount)


@pytest.fixture
def time_machine() -> Clock:
    return Clock()


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Status-change events in the order of their publication."""
    seen: list[dict[str, Any]] = []

    def put_events(self: Any, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        seen.extend({**entry, "Detail": json.loads(entry["Detail"])} for entry in entries)
        return [{}]

    monkeypatch.setattr(EventsBackend, "put_events", put_events)
    return seen


def submit(command: list[str] | str) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::batch:submitJob.sync",
        "Arguments": {
            "JobName": "reimport",
            "JobQueue": "queue",
            "JobDefinition": "definition",
            "Tags": {"longhaul:child": "{% $states.context.Execution.Id %}"},
            "ContainerOverrides": {
                "Command": command,
                "ResourceRequirements": [{"Type": "VCPU", "Value": "{% $string($states.input.size > 10 ? 2 : 0.5) %}"}],
            },
        },
        "Output": {"JobId": "{% $states.result.JobId %}", "StoppedAt": "{% $states.result.Status %}"},
        "End": True,
    }


def definition(processor: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A machine like the deployed one: variables outside, a Choice in the child, a Batch job."""
    states = {
        "Bad item?": {
            "Type": "Choice",
            "Choices": [{"Condition": "{% $type($states.input.key) != 'string' %}", "Next": "Reject item"}],
            "Default": "Import",
        },
        "Reject item": {
            "Type": "Fail",
            "Error": "InvalidItem",
            "Cause": "{% 'key is ' & $string($states.input.key) %}",
        },
        "Import": submit(["import", "--key", "{% $states.input.key %}", "--force", "true"]),
    }
    return {
        "QueryLanguage": "JSONata",
        "StartAt": "Defaults",
        "States": {
            "Defaults": {
                "Type": "Pass",
                "Assign": {"cap": "{% $exists($states.input.max_concurrency) ? $states.input.max_concurrency : 8 %}"},
                "Next": "Reimport",
            },
            "Reimport": {
                "Type": "Map",
                "Label": "Reimport",
                "MaxConcurrency": "{% $cap %}",
                "ToleratedFailurePercentage": "{% $exists($states.input.tolerated) ? $states.input.tolerated : 0 %}",
                "ItemReader": {
                    "Resource": "arn:aws:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSON"},
                    "Arguments": {"Bucket": BUCKET, "Key": "{% $states.input.list_key %}"},
                },
                "ItemSelector": {
                    "key": "{% $type($states.context.Map.Item.Value) = 'object' and "
                    "$exists($states.context.Map.Item.Value.key) ? $states.context.Map.Item.Value.key : null %}",
                    "size": "{% $exists($states.context.Map.Item.Value.size) ? "
                    "$states.context.Map.Item.Value.size : 0 %}",
                    "execution": "{% $states.context.Execution.Id %}",
                },
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    **(processor or {"StartAt": "Bad item?", "States": states}),
                },
                "ResultWriter": {
                    "Resource": "arn:aws:states:::s3:putObject",
                    "Arguments": {"Bucket": BUCKET, "Prefix": "results"},
                },
                **fields,
                "End": True,
            },
        },
    }


@functools.cache
def client(service: str) -> Any:
    """Making a client takes longer than most tests."""
    return boto3.client(service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")


class Machine:
    """The state machine, driven through boto3 only."""

    def __init__(self) -> None:
        self.sfn, self.s3 = client("stepfunctions"), client("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.arn = MACHINE_ARN
        self._lists = 0

    def create(self, tree: dict[str, Any] | None = None) -> Machine:
        text = json.dumps(tree or definition())
        self.sfn.create_state_machine(name=MACHINE, definition=text, roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine")
        return self

    def put_list(self, items: Any) -> str:
        self._lists += 1
        key = f"lists/{self._lists}.json"
        body = items if isinstance(items, bytes) else json.dumps(items).encode()
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return key

    def start(self, items: Any, name: str | None = None, **fields: Any) -> str:
        text = json.dumps({"list_key": self.put_list(items), **fields})
        more = {} if name is None else {"name": name}
        return str(self.sfn.start_execution(stateMachineArn=self.arn, input=text, **more)["executionArn"])

    def run(self, items: Any, **fields: Any) -> dict[str, Any]:
        return self.ended(self.start(items, **fields))

    def describe(self, arn: str) -> dict[str, Any]:
        return self.sfn.describe_execution(executionArn=arn)

    def ended(self, arn: str) -> dict[str, Any]:
        """The execution once it and its Map Runs are over."""
        until(lambda: self.describe(arn)["status"] != "RUNNING")
        until(lambda: all("stopDate" in run for run in self.sfn.list_map_runs(executionArn=arn)["mapRuns"]))
        return self.describe(arn)

    def map_run(self, arn: str) -> dict[str, Any]:
        runs = self.sfn.list_map_runs(executionArn=arn)["mapRuns"]
        return self.sfn.describe_map_run(mapRunArn=runs[0]["mapRunArn"]) if runs else {}

    def counts(self, arn: str) -> dict[str, int]:
        return {key: value for key, value in self.map_run(arn).get("itemCounts", {}).items() if value}

    def manifest(self, arn: str) -> dict[str, Any]:
        run_id = self.map_run(arn)["mapRunArn"].rsplit(":", 1)[-1]
        return self._json(f"results/{run_id}/manifest.json")

    def results(self, arn: str) -> dict[str, list[dict[str, Any]]]:
        """The records of the files that the manifest names."""
        files = self.manifest(arn)["ResultFiles"]
        return {status: [r for one in named for r in self._json(one["Key"])] for status, named in files.items()}

    def result_keys(self, arn: str) -> list[str]:
        run_id = self.map_run(arn)["mapRunArn"].rsplit(":", 1)[-1]
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"results/{run_id}/")["Contents"]
        return [one["Key"].rsplit("/", 1)[-1] for one in found]

    def children(self, arn: str, **filters: Any) -> list[dict[str, Any]]:
        run_arn = self.map_run(arn)["mapRunArn"]
        pages = self.sfn.get_paginator("list_executions").paginate(mapRunArn=run_arn, **filters)
        return [child for page in pages for child in page["executions"]]

    def history(self, arn: str) -> list[dict[str, Any]]:
        return self.sfn.get_execution_history(executionArn=arn, maxResults=1000)["events"]

    def _json(self, key: str) -> Any:
        return json.load(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"])


@pytest.fixture
def machine(jobs: Jobs) -> Machine:
    return Machine().create()


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait for something to come true; the test fails when it does not."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)
    return found


def keys(number: int) -> list[dict[str, Any]]:
    return [{"key": f"evals/set/{i:03}.eval", "size": i} for i in range(number)]
