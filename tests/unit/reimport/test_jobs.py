"""Jobs of a run and their logs (R12, R21)."""

from __future__ import annotations

import time
from typing import Any

import boto3
from botocore.stub import Stubber

from longhaul.reimport.jobs import Job, alive_of, describe, named, read_log

RUN = "arn:aws:states:us-east-1:123456789012:execution:dev-hawk-eval-log-reimport:one"
STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")


def job(id_: str, status: str = "RUNNING", run: str = RUN, **more: Any) -> dict[str, Any]:
    return {
        "jobId": id_,
        "jobName": "n",
        "jobQueue": "q",
        "status": status,
        "startedAt": 1,
        "jobDefinition": "d",
        "tags": {"longhaul:execution": run},
        "container": {"command": ["python", "-m", "longhaul.importer", "--bucket", "b", "--key", f"evals/{id_}.eval"]},
        **more,
    }


def test_alive_jobs_of_a_run(aws: None) -> None:
    """case-R20: in every state before the end, of this run only, each once, none that has ended meanwhile."""
    client = boto3.client("batch")
    listed = {"STARTING": ["a", "b"], "RUNNING": ["b", "c", "d"]}
    with Stubber(client) as stub:
        for status in STATES:
            found = [{"jobId": i, "jobName": "n"} for i in listed.get(status, [])]
            stub.add_response("list_jobs", {"jobSummaryList": found}, {"jobQueue": "q", "jobStatus": status})
        described = [job("a"), job("b", "STARTING"), job("c", "SUCCEEDED"), job("d", run="another")]
        stub.add_response("describe_jobs", {"jobs": described}, {"jobs": ["a", "b", "c", "d"]})
        assert [(j.id, j.key) for j in alive_of(client, "q", RUN)] == [("a", "evals/a.eval"), ("b", "evals/b.eval")]


def test_jobs_by_name_in_any_state(aws: None) -> None:
    client = boto3.client("batch")
    with Stubber(client) as stub:
        filters = [{"name": "JOB_NAME", "values": ["n"]}]
        first = {"jobSummaryList": [{"jobId": "a", "jobName": "n"}], "nextToken": "t"}
        stub.add_response("list_jobs", first, {"jobQueue": "q", "filters": filters})
        second = {"jobSummaryList": [{"jobId": "b", "jobName": "n"}]}
        stub.add_response("list_jobs", second, {"jobQueue": "q", "filters": filters, "nextToken": "t"})
        stub.add_response("describe_jobs", {"jobs": [job("a"), job("b", "FAILED")]}, {"jobs": ["a", "b"]})
        assert [j.id for j in named(client, "q", "n")] == ["a", "b"]


def test_jobs_are_described_a_hundred_at_a_time(aws: None) -> None:
    client = boto3.client("batch")
    ids = [str(i) for i in range(250)]
    with Stubber(client) as stub:
        for start in (0, 100, 200):
            part = ids[start : start + 100]
            stub.add_response("describe_jobs", {"jobs": [job(i) for i in part]}, {"jobs": part})
        assert [j.id for j in describe(client, ids)] == ids


def test_log_streams_of_all_attempts_in_order() -> None:
    attempts = [{"container": {"logStreamName": name}} for name in ("one", "two")] + [{"container": {}}, {}]
    found = Job.of(job("a", attempts=attempts, container={"logStreamName": "two"}))  # type: ignore[arg-type]
    assert found.log_streams == ("one", "two")
    assert found.key is None


def test_all_pages_of_a_log(aws: None) -> None:
    client = boto3.client("logs")
    client.create_log_group(logGroupName="g")
    client.create_log_stream(logGroupName="g", logStreamName="s")
    start_ms = int(time.time() * 1000) - 60_000
    for start in range(0, 12_000, 4_000):
        events = [{"timestamp": start_ms + i, "message": str(i)} for i in range(start, start + 4_000)]
        client.put_log_events(logGroupName="g", logStreamName="s", logEvents=events)
    assert [line.text for line in read_log(client, "g", "s")] == [str(i) for i in range(12_000)]


def test_a_stream_that_is_gone_has_no_lines(aws: None) -> None:
    client = boto3.client("logs")
    client.create_log_group(logGroupName="g")
    assert list(read_log(client, "g", "gone")) == []
