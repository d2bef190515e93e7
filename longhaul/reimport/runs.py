"""Runs: executions of the re-import state machine, as an operator names, watches and steers them (R20 to R22)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from botocore.exceptions import ClientError

from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, RefusedError, ReimportError, RunNotFoundError
from longhaul.reimport.listing import LISTS_PREFIX
from longhaul.reimport.results import map_run_id

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

DEFAULT_MAX_CONCURRENCY = 8
DEFAULT_TOLERATED_FAILURE_PERCENTAGE = 0.5
MAX_CONCURRENCY = 32
REDRIVABLE_FOR = timedelta(days=14)
RUNNING = "RUNNING"
INVALID_INPUT_ERROR = "InvalidInput"  # the Fail state of the state machine (R10)
_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of the state machine."""

    arn: str
    name: str
    status: str  # RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED
    started: datetime
    stopped: datetime | None = None
    input: Mapping[str, Any] | None = None  # None: not an object, or not asked for
    error: str | None = None
    cause: str | None = None
    redrive_count: int = 0
    redriven: datetime | None = None

    @property
    def redrivable(self) -> bool:
        """Whether a redrive may help: AWS redrives no success, and Batch refuses some names as tags (R12)."""
        return self.status != "SUCCEEDED" and re.fullmatch(r"[\w .:/=+@-]+", self.name) is not None

    @property
    def max_concurrency(self) -> int:
        """The cap that the input asks for; a redrive takes it again (R16)."""
        cap = (self.input or {}).get("max_concurrency", DEFAULT_MAX_CONCURRENCY)
        return int(cap) if isinstance(cap, int | float) else DEFAULT_MAX_CONCURRENCY  # 8.0 is an integer in JSON

    def lasted(self, now: datetime) -> float:
        """Return the seconds from its start to its end, or to now."""
        return ((self.stopped or now) - self.started).total_seconds()

    @property
    def list_key(self) -> str | None:
        """The key of the list in the re-import bucket."""
        key = (self.input or {}).get("list_key")
        return key if isinstance(key, str) else None


@dataclass(frozen=True, kw_only=True)
class MapRun:
    """A Map Run of an execution; its id names the folder of its results."""

    arn: str
    status: str  # RUNNING, SUCCEEDED, FAILED, ABORTED
    started: datetime
    stopped: datetime | None
    redriven: datetime | None
    max_concurrency: int
    tolerated_failure_percentage: float
    redrive_count: int
    pending: int
    running: int
    succeeded: int
    failed: int
    timed_out: int
    aborted: int
    total: int
    not_redrivable: int

    @property
    def id(self) -> str:
        """The part of the ARN after the last colon."""
        return map_run_id(self.arn)

    @property
    def ended(self) -> int:
        """How many items have come to an end, well or badly."""
        return self.succeeded + self.failed + self.timed_out + self.aborted

    @property
    def last_driven(self) -> datetime:
        """When the Map Run was started or last redriven; a manifest older than this is not current (R18)."""
        return max(self.started, self.redriven) if self.redriven else self.started


class Runs:
    """The executions of one state machine; botocore retries what AWS throttles."""

    def __init__(self, client: SFNClient, state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    @property
    def job_name(self) -> str:
        """The name of the Batch jobs that the machine submits: its own (R12)."""
        return self._arn.rsplit(":", 1)[1]

    def execution_arn(self, name: str) -> str:
        """Return the ARN that an execution of that name has or would have."""
        return f"{self._arn.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def describe(self, arn: str) -> Run:
        """Return the run of that ARN; RunNotFoundError if there is none."""
        try:
            found = self._client.describe_execution(executionArn=arn)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("ExecutionDoesNotExist", "InvalidArn"):
                raise RunNotFoundError(
                    f"there is no execution {arn}; `longhaul reimport list` shows the runs"
                ) from error
            raise
        return Run(
            arn=found["executionArn"],
            name=found.get("name") or arn.rsplit(":", 1)[1],
            status=found["status"],
            started=found["startDate"],
            stopped=found.get("stopDate"),
            input=_object(found.get("input")),
            error=found.get("error"),
            cause=found.get("cause"),
            redrive_count=found.get("redriveCount", 0),
            redriven=found.get("redriveDate"),
        )

    def recent(self, status: str | None = None) -> Iterator[Run]:
        """Yield the runs, the newest first, all pages; without input, error and cause."""
        filters: Any = {"statusFilter": status} if status else {}
        for page in self._client.get_paginator("list_executions").paginate(stateMachineArn=self._arn, **filters):
            for found in page["executions"]:
                yield Run(
                    arn=found["executionArn"],
                    name=found["name"],
                    status=found["status"],
                    started=found["startDate"],
                    stopped=found.get("stopDate"),
                    redrive_count=found.get("redriveCount", 0),
                    redriven=found.get("redriveDate"),
                )

    def resolve(self, given: str) -> Run:
        """Return the run with that ARN, that name, or the only one whose name begins so (R22)."""
        if given.startswith("arn:"):
            if not given.startswith(self.execution_arn("")):
                raise InvalidArgumentError(f"{given} is not an execution of {self._arn}")
            return self.describe(given)
        if not re.fullmatch(r"[^\s<>{}\[\]?*\"#%\\^|~`$&,;:/]{1,80}", given):
            raise InvalidArgumentError(f"{given!r} is no name, ARN or beginning of the name of a run")
        try:
            return self.describe(self.execution_arn(given))
        except RunNotFoundError as missing:
            found = [run.name for run in self.recent() if run.name.startswith(given)]
            if len(found) == 1:
                return self.describe(self.execution_arn(found[0]))
            if not found:
                raise RunNotFoundError(
                    f"no run is called {given} or begins so; `longhaul reimport list` shows the runs"
                ) from missing
            shown = ", ".join(found[:_EXAMPLES]) + (f" and {len(found) - _EXAMPLES} more" if found[_EXAMPLES:] else "")
            raise RunNotFoundError(f"{len(found)} runs begin with {given}: {shown}; say more of the name") from missing

    def check_free(self, name: str) -> None:
        """Raise NameTakenError if an execution of that name exists.

        StartExecution answers success for a running execution of the same name and input, so look first (R20).
        """
        try:
            run = self.describe(self.execution_arn(name))
        except RunNotFoundError:
            return
        raise NameTakenError(
            f"an execution {name} exists already ({run.status}, started {run.started:%Y-%m-%d %H:%M}); names are taken"
            " for 90 days: choose another --name"
        )

    def start(self, name: str, input_: Mapping[str, Any]) -> str:
        """Start an execution and return its ARN; NameTakenError if the name is taken."""
        self.check_free(name)
        try:
            return self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(input_))[
                "executionArn"
            ]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionAlreadyExists":
                raise NameTakenError(f"an execution {name} exists already; choose another --name") from error
            raise

    def map_runs(self, run_arn: str) -> list[MapRun]:
        """Return the Map Runs of an execution, the oldest first; none while it is still reading its list."""
        pages = self._client.get_paginator("list_map_runs").paginate(executionArn=run_arn)
        arns = [found["mapRunArn"] for page in pages for found in page["mapRuns"]]
        return sorted((self.describe_map_run(arn) for arn in arns), key=lambda m: m.started)

    def describe_map_run(self, arn: str) -> MapRun:
        """Return a Map Run with its counts of items."""
        found = self._client.describe_map_run(mapRunArn=arn)
        counts = found["itemCounts"]
        return MapRun(
            arn=found["mapRunArn"],
            status=found["status"],
            started=found["startDate"],
            stopped=found.get("stopDate"),
            redriven=found.get("redriveDate"),
            max_concurrency=found["maxConcurrency"],
            tolerated_failure_percentage=found["toleratedFailurePercentage"],
            redrive_count=found.get("redriveCount", 0),
            pending=counts["pending"] + counts.get("pendingRedrive", 0),  # the latter were started once and wait again
            running=counts["running"],
            succeeded=counts["succeeded"],
            failed=counts["failed"],
            timed_out=counts["timedOut"],
            aborted=counts["aborted"],
            total=counts["total"],
            not_redrivable=counts.get("failuresNotRedrivable", 0),
        )

    def throttle(self, map_run: MapRun, max_concurrency: int) -> None:
        """Set the cap of a running Map Run; jobs in flight keep running (R13)."""
        self._client.update_map_run(mapRunArn=map_run.arn, maxConcurrency=check_cap(max_concurrency))

    def stop(self, run: Run, reason: str) -> None:
        """Stop a running execution; its jobs are terminated, which takes a while."""
        if run.status != RUNNING:
            raise RefusedError(f"{run.name} is not running, it is {run.status}")
        self._client.stop_execution(executionArn=run.arn, error="Stopped", cause=reason)

    def redrive(self, run: Run) -> None:
        """Redrive an execution that `check_redrivable` has let pass."""
        self._client.redrive_execution(executionArn=run.arn)

    def redeployed(self, run: Run) -> bool:
        """Say whether the definition that a redrive would use is not the deployed one any more (case-R19)."""
        used = self._client.describe_state_machine_for_execution(executionArn=run.arn)
        now = self._client.describe_state_machine(stateMachineArn=self._arn)
        return _object(used["definition"]) != _object(now["definition"])


def execution_input(list_key: str, max_concurrency: int, tolerated_failure_percentage: float) -> dict[str, Any]:
    """Return the input of an execution (R9), every field checked as the state machine does (R10)."""
    if not list_key.startswith(LISTS_PREFIX):
        raise InvalidArgumentError(f"the list must stand below {LISTS_PREFIX}, it is {list_key!r}")
    if not 0 <= tolerated_failure_percentage <= 100:  # NaN is not
        raise InvalidArgumentError(
            f"the tolerated failure percentage is a number from 0 to 100, not {tolerated_failure_percentage}"
        )
    return {
        "list_key": list_key,
        "max_concurrency": check_cap(max_concurrency),
        "tolerated_failure_percentage": tolerated_failure_percentage,
    }


def check_cap(max_concurrency: int) -> int:
    """Return the cap if it is 1 to 32; 0 would mean 10,000 to Step Functions, not a pause (case-R21)."""
    if isinstance(max_concurrency, bool) or not isinstance(max_concurrency, int):
        raise InvalidArgumentError(f"the cap is a whole number from 1 to {MAX_CONCURRENCY}, not {max_concurrency!r}")
    if not 1 <= max_concurrency <= MAX_CONCURRENCY:
        raise InvalidArgumentError(f"the cap is 1 to {MAX_CONCURRENCY}, not {max_concurrency}; to pause a run, stop it")
    return max_concurrency


def aborting_failures(items: int, tolerated_failure_percentage: float) -> int | None:
    """Return how many failures abort a run of so many items, None if no number does: more than the percentage (R15)."""
    failures = int(items * Fraction(str(tolerated_failure_percentage)) / 100) + 1  # exact: 32.3 % of 1,000 is 323
    return failures if failures <= items else None


def check_redrivable(run: Run, map_runs: list[MapRun], now: datetime) -> None:
    """Raise RefusedError unless the run can be redriven now; the message says what to do instead (R16, R21)."""
    if run.status == "SUCCEEDED":
        raise RefusedError(
            f"{run.name} SUCCEEDED, its failures within tolerance, and AWS redrives no such run;"
            f" `longhaul reimport retry {run.name} --name NEW` starts a new run of what is left"
        )
    if run.status == RUNNING:
        raise RefusedError(f"{run.name} is still running; `longhaul reimport watch {run.name}` follows it")
    if run.stopped is not None and now - run.stopped > REDRIVABLE_FOR:
        raise RefusedError(
            f"{run.name} ended {(now - run.stopped).days} days ago and AWS redrives for {REDRIVABLE_FOR.days};"
            f" `longhaul reimport retry {run.name} --name NEW` starts a new run of what is left"
        )
    if not map_runs and run.error == INVALID_INPUT_ERROR:
        raise RefusedError(
            f"a redrive of {run.name} would take its input again, which was refused ({run.cause}); start anew"
        )
    ending = [m for m in map_runs if m.status == RUNNING]
    if ending:
        raise StillEndingError(f"{run.name} is still ending: {sum(m.running for m in ending)} jobs are being stopped")


class StillEndingError(RefusedError):
    """The execution has ended but its Map Run is still stopping its jobs (case-R20); waiting helps."""


def console_url(arn: str) -> str:
    """Return the address of an execution in the AWS console."""
    _, partition, _, region, *_ = arn.split(":")
    host = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}.get(
        partition, "console.aws.amazon.com"
    )
    return f"https://{region}.{host}/states/home?region={region}#/v2/executions/details/{quote(arn, safe=':')}"


def require_map_runs(run: Run, map_runs: list[MapRun]) -> list[MapRun]:
    """Return the Map Runs, or say why there is none."""
    if map_runs:
        return map_runs
    if run.status == RUNNING:
        raise RefusedError(f"{run.name} has no Map Run yet, it is reading its list; try again in a moment")
    said = ": ".join(part for part in (run.error, run.cause) if part)
    raise ReimportError(f"{run.name} {run.status} before it started a Map Run{f' ({said})' if said else ''}")


def _object(text: str | None) -> Mapping[str, Any] | None:
    try:
        parsed = json.loads(text or "null")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
