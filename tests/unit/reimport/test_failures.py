"""Why an item failed (R14, R17, case-R14, case-R16)."""

from __future__ import annotations

import json

import pytest

from longhaul.reimport.failures import FailureClass, classify
from tests.unit.reimport.causes import CUT, cause

SPOT = "Your Spot Task was interrupted."
OOM = "OutOfMemoryError: Container killed due to memory usage"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cause(10), "damaged_log"),
        (cause(11), "log_not_found"),
        (cause(12), "refused"),
        (cause(20, attempts=3), "warehouse_unavailable"),
        (cause(21, attempts=3), "log_changed"),
        (cause(143), "terminated"),
        (cause(137), "terminated"),
        (cause(137, reason=OOM), "out_of_memory"),
        (cause(None, status_reason=SPOT), "spot_interrupted"),
        (cause(143, status_reason=SPOT), "spot_interrupted"),
        (cause(None, status_reason="Job attempt duration exceeded timeout"), "timed_out"),
        (cause(None, reason="CannotPullContainerError: not found"), "infrastructure"),
        (cause(1), "unknown"),
        (cause(2), "unknown"),
    ],
)
def test_class_of_a_failed_job(text: str, expected: str) -> None:
    assert classify("FAILED", "States.TaskFailed", text).failure_class.value == expected


@pytest.mark.parametrize(
    "job",
    [
        {"JobId": "j", "Attempts": [], "StatusReason": "no capacity"},
        {"JobId": "j", "Attempts": []},
        {"JobId": "j", "Attempts": [{}], "Container": {}},
        {"JobId": "j", "Attempts": [None], "Container": None},
        {"JobId": "j", "Attempts": None, "Container": {"ExitCode": None}},
        {"JobId": "j"},
    ],
)
def test_no_exit_code_is_infrastructure_and_never_exit_0(job: dict[str, object]) -> None:
    """case-R16: empty attempts, missing container, missing exit code."""
    failure = classify("FAILED", "States.TaskFailed", json.dumps(job))
    assert failure.failure_class is FailureClass.INFRASTRUCTURE
    assert failure.facts.exit_code is None
    assert "exit" not in failure.reason


@pytest.mark.parametrize(
    ("status", "error", "text", "expected"),
    [
        ("ABORTED", None, None, "aborted"),
        ("ABORTED", "States.TaskFailed", cause(11), "aborted"),
        ("TIMED_OUT", "States.Timeout", None, "timed_out"),
        ("FAILED", "InvalidItem", "an item of the list must be ...", "invalid_item"),
        ("FAILED", "Batch.AWSBatchException", "Too Many Requests", "infrastructure"),
        ("FAILED", "States.Runtime", None, "unknown"),
        ("FAILED", "States.TaskFailed", '{"not": "a job"}', "unknown"),
        ("FAILED", "States.TaskFailed", "[1, 2]", "unknown"),
        (None, None, None, "unknown"),
    ],
)
def test_class_without_a_job(status: str | None, error: str | None, text: str | None, expected: str) -> None:
    assert classify(status, error, text).failure_class.value == expected


def test_a_cut_cause_says_what_stands_before_the_cut() -> None:
    """case-R14: JSON cut at 32,768 characters; the attempts stand first."""
    text = cause(20, reason="busy", attempts=3, padding=40_000)
    assert len(text) == CUT
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(text)
    failure = classify("FAILED", "States.TaskFailed", text)
    assert failure.failure_class is FailureClass.WAREHOUSE_UNAVAILABLE
    assert (failure.facts.exit_code, failure.facts.attempts) == (20, 3)
    assert failure.facts.log_stream == "importer/default/0123"
    assert failure.reason == "busy; the warehouse was busy or unreachable"


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_any_cut_is_survived(length: int) -> None:
    classify("FAILED", "States.TaskFailed", cause(11)[:length])


def test_a_name_inside_a_value_does_not_count() -> None:
    """A key or an environment value may look like JSON; only the structure counts."""
    job = json.loads(cause(11))
    job["Container"]["Command"] = ['"ExitCode":10', '{"StatusReason":"Your Spot Task was interrupted"}']
    text = json.dumps({"Container": job["Container"], "Attempts": job["Attempts"]})[:-20]
    assert classify("FAILED", "States.TaskFailed", text).failure_class is FailureClass.LOG_NOT_FOUND


@pytest.mark.parametrize(
    ("error", "text", "reason"),
    [
        ("States.TaskFailed", "plain text\nof two lines", "plain text of two lines"),
        ("States.TaskFailed", "", "States.TaskFailed"),
        ("States.TaskFailed", None, "States.TaskFailed"),
        (None, None, "no reason given"),
        ("States.TaskFailed", cause(11), "the log was not found or may not be read"),
        ("States.TaskFailed", cause(3), "exit 3"),
        ("States.TaskFailed", cause(143, status_reason=SPOT), f"{SPOT}; the job was terminated"),
        ("States.TaskFailed", cause(None, reason="CannotPull", status_reason="Task failed"), "CannotPull; Task failed"),
        ("E", "{" * 3000, "{" * 500),
        ("E", '{"a":' * 100_000, ('{"a":' * 100)[:500]),
    ],
)
def test_best_available_reason(error: str | None, text: str | None, reason: str) -> None:
    """case-R14: full JSON, cut JSON, plain text, empty: each has a reason."""
    assert classify("FAILED", error, text).reason == reason


def test_reason_of_a_stopped_item() -> None:
    assert classify("ABORTED", None, None).reason == "stopped before it ended"


def test_the_last_attempt_decides() -> None:
    job = json.loads(cause(20, attempts=3))
    job["Attempts"][2]["Container"] = {"ExitCode": 10, "LogStreamName": "importer/default/last"}
    failure = classify("FAILED", "States.TaskFailed", json.dumps(job))
    assert failure.failure_class is FailureClass.DAMAGED_LOG
    assert failure.facts.log_stream == "importer/default/last"
