"""What an operator and a test do with the sandbox's re-import: upload, start, wait, read results and jobs."""

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg

Found = TypeVar("Found")
JOB_STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
IN_FLIGHT = JOB_STATUSES[:5]


def until(what: Callable[[], Found], seconds: float = 60, every: float = 0.1) -> Found:
    """Poll until `what()` is truthy; return it."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(every)
    return found


class Operator:
    """A person with a keyboard, as far as the tests need one. `sandbox` is the fixture of tests/sandbox/conftest.py."""

    def __init__(self, sandbox: Any) -> None:
        self.sandbox = sandbox
        self.s3, self.sfn, self.batch = (sandbox.client(name) for name in ("s3", "stepfunctions", "batch"))
        self.logs_bucket = sandbox.outputs["LogsBucketName"]
        self.bucket = sandbox.outputs["EvalLogReimportBucketName"]
        self.machine = sandbox.outputs["EvalLogReimportStateMachineArn"]
        self.queue = sandbox.outputs["ImporterOnDemandQueueArn"]

    # ---- logs and lists
    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Uploads within start no imports: the rule on created objects is switched off meanwhile."""
        events = self.sandbox.client("events")
        [rule] = [r["Name"] for r in events.list_rules()["Rules"] if "Object Created" in r.get("EventPattern", "")]
        events.disable_rule(Name=rule)
        try:
            yield
        finally:
            events.enable_rule(Name=rule)

    def put(self, body: bytes, key: str | None = None) -> dict[str, Any]:
        """Upload a log; return its item of a list."""
        key = key or f"evals/{uuid.uuid4().hex}/log.eval"
        self.s3.put_object(Bucket=self.logs_bucket, Key=key, Body=body)
        return {"key": key, "size": len(body)}

    def put_list(self, items: Any, name: str | None = None) -> str:
        """Upload a list, an object of any JSON or bytes; return its name."""
        name = name or f"run-{uuid.uuid4().hex[:10]}"
        body = items if isinstance(items, bytes) else json.dumps(items).encode()
        self.s3.put_object(Bucket=self.bucket, Key=f"lists/{name}.json", Body=body, IfNoneMatch="*")
        return name

    # ---- runs
    def start(self, items: Any, **fields: Any) -> str:
        """Upload the list, start a run by hand; return the execution's ARN."""
        name = self.put_list(items)
        return self.start_input({"list_key": f"lists/{name}.json", **fields}, name)

    def start_input(self, given: Any, name: str | None = None) -> str:
        """Start an execution with just this input."""
        name = name or f"run-{uuid.uuid4().hex[:10]}"
        started = self.sfn.start_execution(stateMachineArn=self.machine, name=name, input=json.dumps(given))
        return str(started["executionArn"])

    def ended(self, execution: str, seconds: float = 60) -> dict[str, Any]:
        """The execution's description once it is over."""
        return until(lambda: (d := self.describe(execution))["status"] != "RUNNING" and d, seconds)

    def describe(self, execution: str) -> dict[str, Any]:
        return dict(self.sfn.describe_execution(executionArn=execution))

    def map_run(self, execution: str) -> dict[str, Any]:
        """The description of the execution's one Map Run, once it has one."""
        runs = until(lambda: self.sfn.list_map_runs(executionArn=execution)["mapRuns"])
        return dict(self.sfn.describe_map_run(mapRunArn=runs[0]["mapRunArn"]))

    def counts(self, execution: str) -> dict[str, int]:
        """Item counts that are not zero."""
        return {k: v for k, v in self.map_run(execution)["itemCounts"].items() if v}

    def results(self, execution: str) -> dict[str, list[dict[str, Any]]]:
        """The records of the files that the manifest names, by status (R17)."""
        run_id = self.map_run(execution)["mapRunArn"].rsplit(":", 1)[1]
        manifest = self.read(f"results/{run_id}/manifest.json")
        return {
            status: [record for file in files for record in self.read(file["Key"])]
            for status, files in manifest["ResultFiles"].items()
        }

    def read(self, key: str) -> Any:
        return json.load(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"])

    # ---- jobs
    def jobs(self, execution: str, *statuses: str) -> list[dict[str, Any]]:
        """The Batch jobs that a run submitted, by their tag."""
        summaries = [
            job["jobId"]
            for status in statuses or JOB_STATUSES
            for page in self.batch.get_paginator("list_jobs").paginate(jobQueue=self.queue, jobStatus=status)
            for job in page["jobSummaryList"]
        ]
        found: list[dict[str, Any]] = []
        for at in range(0, len(summaries), 100):
            described = self.batch.describe_jobs(jobs=summaries[at : at + 100])["jobs"]
            found += [job for job in described if job.get("tags", {}).get("longhaul:execution") == execution]
        return found

    # ---- the warehouse
    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.sandbox.env["DATABASE_URL"]) as connection:
            return connection.execute(query.encode(), values).fetchall()

    @contextlib.contextmanager
    def held_warehouse(self) -> Iterator[None]:
        """Importers that start now wait at the warehouse until the end of the block, as behind a busy one."""
        with psycopg.connect(self.sandbox.env["DATABASE_URL"]) as connection:
            connection.execute("lock table eval in access exclusive mode")
            try:
                yield
            finally:
                connection.rollback()


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """The largest number of [start, stop) spans that overlap."""
    steps = sorted([(start, 1) for start, _ in spans] + [(stop, -1) for _, stop in spans])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most
