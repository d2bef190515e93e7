"""The Batch jobs of a run and what they logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_batch import BatchClient
    from mypy_boto3_batch.literals import JobStatusType
    from mypy_boto3_batch.type_defs import JobDetailTypeDef
    from mypy_boto3_logs import CloudWatchLogsClient

EXECUTION_TAG = "longhaul:execution"
_ALIVE: tuple[JobStatusType, ...] = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
_DESCRIBED_AT_ONCE = 100
SEARCHED_JOBS = 5_000


@dataclass(frozen=True, kw_only=True)
class Job:
    """A Batch job, as far as an operator cares."""

    id: str
    status: str
    key: str | None
    execution_arn: str | None
    log_streams: tuple[str, ...]  # one for each attempt, the oldest first

    @classmethod
    def of(cls, found: JobDetailTypeDef) -> Job:
        """Read a description by DescribeJobs."""
        container = found.get("container", {})
        streams = [a.get("container", {}).get("logStreamName") for a in found.get("attempts", ())]
        streams.append(container.get("logStreamName"))
        return cls(
            id=found["jobId"],
            status=found["status"],
            key=_argument(list(container.get("command", ())), "--key"),
            execution_arn=found.get("tags", {}).get(EXECUTION_TAG),
            log_streams=tuple(dict.fromkeys(s for s in streams if s)),
        )


def alive(batch: BatchClient, queue: str) -> Iterator[Job]:
    """Yield the jobs of a queue that have not ended, whoever submitted them."""
    paginator = batch.get_paginator("list_jobs")
    ids = [
        found["jobId"]
        for status in _ALIVE
        for page in paginator.paginate(jobQueue=queue, jobStatus=status)
        for found in page["jobSummaryList"]
    ]
    # one may have moved on to the next status between two listings
    return (job for job in describe(batch, dict.fromkeys(ids)) if job.status in _ALIVE)


def alive_of(batch: BatchClient, queue: str, execution_arn: str) -> list[Job]:
    """Return the jobs of a run that have not ended, found by their tag (R12)."""
    return [job for job in alive(batch, queue) if job.execution_arn == execution_arn]


def named(batch: BatchClient, queue: str, name: str, limit: int = SEARCHED_JOBS) -> Iterator[Job]:
    """Yield the newest jobs of that name, ended or not, that Batch still knows; Batch lists the newest first."""
    pages = batch.get_paginator("list_jobs").paginate(
        jobQueue=queue, filters=[{"name": "JOB_NAME", "values": [name]}], PaginationConfig={"MaxItems": limit}
    )
    return describe(batch, (found["jobId"] for page in pages for found in page["jobSummaryList"]))


def describe(batch: BatchClient, ids: Iterable[str]) -> Iterator[Job]:
    """Yield the jobs of these ids that Batch still knows; it forgets a job some days after its end."""
    wanted = list(ids)
    for start in range(0, len(wanted), _DESCRIBED_AT_ONCE):
        for found in batch.describe_jobs(jobs=wanted[start : start + _DESCRIBED_AT_ONCE])["jobs"]:
            yield Job.of(found)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a job's log."""

    at: datetime
    stream: str
    text: str


def read_log(logs: CloudWatchLogsClient, group: str, stream: str) -> Iterator[Line]:
    """Yield the lines of a log stream, the oldest first; none if the stream is gone or was never written."""
    token: str | None = None
    while True:
        try:
            page = logs.get_log_events(
                logGroupName=group,
                logStreamName=stream,
                startFromHead=True,
                **({"nextToken": token} if token else {}),  # type: ignore[arg-type]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return
            raise
        for event in page["events"]:
            at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            yield Line(at=at, stream=stream, text=event["message"])
        if page["nextForwardToken"] == token:  # CloudWatch's sign that the end is reached
            return
        token = page["nextForwardToken"]


def _argument(command: list[str], name: str) -> str | None:
    return next((value for flag, value in pairwise(command) if flag == name), None)
