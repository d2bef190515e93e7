"""Why an item failed: from the `Error` and `Cause` of a child execution to a class and the best available reason.

The Cause of a failed job is the Batch job description as Step Functions writes it: PascalCase keys, cut at 32,768
characters, so that it may be invalid JSON; it may also be plain text, empty or absent (R17, case-R14). It is read with
a streaming parser, which yields what stands before the cut.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import ijson

CAUSE_MAX_CHARACTERS = 32_768  # where Step Functions cuts
REASON_MAX_CHARACTERS = 500


class FailureClass(Enum):
    """What an operator does next depends on this; the values stand in reports."""

    DAMAGED_LOG = "damaged_log"
    LOG_NOT_FOUND = "log_not_found"
    REFUSED = "refused"
    WAREHOUSE_UNAVAILABLE = "warehouse_unavailable"
    LOG_CHANGED = "log_changed"
    TERMINATED = "terminated"
    OUT_OF_MEMORY = "out_of_memory"
    SPOT_INTERRUPTED = "spot_interrupted"
    TIMED_OUT = "timed_out"
    INFRASTRUCTURE = "infrastructure"
    INVALID_ITEM = "invalid_item"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


# What the importer's exit codes say (R14); 137 and 143 are SIGKILL and SIGTERM.
EXIT_CLASSES = {
    10: FailureClass.DAMAGED_LOG,
    11: FailureClass.LOG_NOT_FOUND,
    12: FailureClass.REFUSED,
    20: FailureClass.WAREHOUSE_UNAVAILABLE,
    21: FailureClass.LOG_CHANGED,
    137: FailureClass.TERMINATED,
    143: FailureClass.TERMINATED,
}
_EXIT_MEANINGS = {
    10: "the log is damaged or not importable",
    11: "the log was not found or may not be read",
    12: "the importer refused the log or its arguments",
    20: "the warehouse was busy or unreachable",
    21: "the log changed while it was read",
    137: "the job was killed",
    143: "the job was terminated",
}
_EXITED = "Essential container in task exited"  # Batch's status reason of every job that just exited
INVALID_ITEM_ERROR = "InvalidItem"  # the Fail state of the state machine (R10)
_JOB_FIELDS = {"JobId", "StatusReason", "Attempts", "Container"}
_TERMINAL = {"ABORTED": FailureClass.ABORTED, "TIMED_OUT": FailureClass.TIMED_OUT}


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What a Batch job description says of the job's end; None is "not said", never a stand-in for 0 (case-R16)."""

    job_id: str | None = None
    status_reason: str | None = None
    container_reason: str | None = None
    exit_code: int | None = None
    log_stream: str | None = None
    attempts: int | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failure, classified."""

    failure_class: FailureClass
    reason: str  # the best available, one line, cut
    facts: JobFacts = field(default_factory=JobFacts)


def classify(status: str | None, error: str | None, cause: str | None) -> Failure:
    """Classify a child execution that ended as `status` (FAILED, TIMED_OUT, ABORTED) with `error` and `cause`."""
    facts = read_cause(cause)
    return Failure(
        failure_class=_class_of(status, error, facts),
        reason=_reason(status, error, cause, facts),
        facts=facts or JobFacts(),
    )


def read_cause(cause: str | None) -> JobFacts | None:
    """Return what a job description, whole or cut, says; None for text that is not one."""
    if not cause or not cause.lstrip().startswith("{"):
        return None
    cause = cause[:CAUSE_MAX_CHARACTERS]
    try:
        job = json.loads(cause)
    except (ValueError, RecursionError):
        return _read_cut(cause)
    return _facts(job) if isinstance(job, dict) and job.keys() & _JOB_FIELDS else None


def _facts(job: dict[str, Any]) -> JobFacts:
    attempts = job.get("Attempts")
    attempts = attempts if isinstance(attempts, list) else []
    last = attempts[-1] if attempts and isinstance(attempts[-1], dict) else {}
    containers = [c for c in (last.get("Container"), job.get("Container")) if isinstance(c, dict)]

    def first(name: str, kind: type) -> Any:
        values = (c.get(name) for c in containers)
        return next((v for v in values if isinstance(v, kind) and not isinstance(v, bool) and v != ""), None)

    return JobFacts(
        job_id=_text(job.get("JobId")),
        status_reason=_text(job.get("StatusReason")) or _text(last.get("StatusReason")),
        container_reason=first("Reason", str),
        exit_code=first("ExitCode", int),
        log_stream=first("LogStreamName", str),
        attempts=len(attempts),
    )


def _read_cut(cause: str) -> JobFacts | None:
    """Rebuild the part of the description that stands before the cut, as far as it is needed."""
    job: dict[str, Any] = {}
    attempts: list[dict[str, Any]] = []
    try:
        for prefix, event, value in ijson.parse(io.BytesIO(cause.encode("utf-8", "replace")), use_float=True):
            if prefix == "Attempts.item" and event == "start_map":
                attempts.append({"Container": {}})
            elif event in ("string", "number"):
                *path, name = prefix.split(".")
                if path == []:
                    job[name] = value
                elif path == ["Container"]:
                    job.setdefault("Container", {})[name] = value
                elif path == ["Attempts", "item"]:
                    attempts[-1][name] = value
                elif path == ["Attempts", "item", "Container"]:
                    attempts[-1]["Container"][name] = value
    except ijson.JSONError:
        pass  # the cut: what came before it is what there is
    if not attempts and not job.keys() & _JOB_FIELDS:
        return None
    return _facts({**job, "Attempts": attempts})


def _class_of(status: str | None, error: str | None, facts: JobFacts | None) -> FailureClass:
    if status in _TERMINAL:
        return _TERMINAL[status]
    if error == INVALID_ITEM_ERROR:
        return FailureClass.INVALID_ITEM
    if facts is None:  # no job description: Batch never took the job, or nobody says what happened
        refused_by_batch = error is not None and error.startswith("Batch.")
        return FailureClass.INFRASTRUCTURE if refused_by_batch else FailureClass.UNKNOWN
    if (facts.container_reason or "").startswith("OutOfMemoryError"):  # 137 alone also means a reclaim (R14)
        return FailureClass.OUT_OF_MEMORY
    if (facts.status_reason or "").startswith("Your Spot Task was interrupted"):
        return FailureClass.SPOT_INTERRUPTED
    if (facts.status_reason or "").startswith("Job attempt duration exceeded timeout"):
        return FailureClass.TIMED_OUT
    if facts.exit_code is None:  # image pull, no capacity, no attempt (case-R16)
        return FailureClass.INFRASTRUCTURE
    return EXIT_CLASSES.get(facts.exit_code, FailureClass.UNKNOWN)


def _reason(status: str | None, error: str | None, cause: str | None, facts: JobFacts | None) -> str:
    unsaid = "stopped before it ended" if status == "ABORTED" else error or "no reason given"
    if facts is None:
        said = cause or unsaid
    elif facts.exit_code is None:
        said = "; ".join(part for part in (facts.container_reason, facts.status_reason) if part) or unsaid
    else:
        status_reason = None if facts.status_reason == _EXITED else facts.status_reason
        meaning = _EXIT_MEANINGS.get(facts.exit_code, f"exit {facts.exit_code}")
        said = "; ".join(part for part in (facts.container_reason, status_reason, meaning) if part)
    return " ".join(said.split())[:REASON_MAX_CHARACTERS]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
