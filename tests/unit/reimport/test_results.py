"""Result files (R17, case-R07, case-R14, "Bad input")."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from longhaul.reimport.results import Outcome, Results, read_entry, results
from tests.unit.reimport.causes import cause
from tests.unit.reimport.result_files import BUCKET, MISSING, child, entry, put_results


@pytest.fixture
def found() -> Iterator[Results]:
    with results() as store:
        yield store


def counts(found: Results) -> dict[str, int]:
    return {outcome.value: number for outcome, number in found.counts().items() if number}


def test_several_files_of_one_status_are_all_read(s3: Any, found: Results) -> None:
    """case-R07: SUCCEEDED_0, SUCCEEDED_1, FAILED_0; a malformed Output is never a success."""
    bad = entry(3, Output="{not json")
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)], "SUCCEEDED_1": [entry(2), bad], "FAILED_0": [entry(4, "FAILED")]})
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"succeeded": 2, "failed": 1, "malformed": 1}
    assert [item.key for item in found.failed()] == ["evals/set/3.eval", "evals/set/4.eval"]
    assert set(found.unfinished_keys()) == {"evals/set/3.eval", "evals/set/4.eval"}
    assert not found.problems


def test_only_what_the_manifest_names_is_read(s3: Any, found: Results) -> None:
    """R17: files of an earlier redrive remain beside the new ones."""
    put_results(s3, "m", {"FAILED_0": [entry(1, "FAILED")], "SUCCEEDED_0": [entry(1)]}, named=("SUCCEEDED_0",))
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"succeeded": 1}


@pytest.mark.parametrize("succeeded_first", [True, False])
def test_success_wins_then_the_highest_redrive_count(found: Results, succeeded_first: bool) -> None:
    """R17: one child, one answer, whatever the order."""
    success, failure = (
        read_entry(entry(1), "SUCCEEDED", "a"),
        read_entry(entry(1, "FAILED", RedriveCount=5), "FAILED", "b"),
    )
    for item in (success, failure) if succeeded_first else (failure, success):
        found.add(item)
    for redrive in (1, 3, 2):
        found.add(read_entry(entry(2, "FAILED", RedriveCount=redrive, Cause=f"drive {redrive}"), "FAILED", "c"))
    assert counts(found) == {"succeeded": 1, "failed": 1}
    assert [item.cause_head for item in found.failed()] == ["drive 3"]


def test_1500_distinct_failures(s3: Any, found: Results) -> None:
    """case-R06: no page of them is lost."""
    failed = [entry(i, "FAILED") for i in range(1500)]
    put_results(s3, "m", {f"FAILED_{page}": failed[page * 100 : page * 100 + 100] for page in range(15)})
    found.read(s3, BUCKET, "m")
    assert len({item.key for item in found.failed()}) == 1500


def test_causes_of_every_kind(s3: Any, found: Results) -> None:
    """case-R14, R17: whole, cut, plain, empty, absent Cause and absent Error: each key is listed."""
    failed = [
        entry(1, "FAILED"),
        entry(2, "FAILED", Cause=cause(20, padding=40_000)),
        entry(3, "FAILED", Cause="plain text"),
        entry(4, "FAILED", Cause=""),
        entry(5, "FAILED", Cause=MISSING),
        entry(6, "ABORTED"),
        entry(7, "TIMED_OUT", Error="States.Timeout"),
    ]
    put_results(s3, "m", {"FAILED_0": failed})
    found.read(s3, BUCKET, "m")
    assert [(i.key or "")[-6:-5] for i in found.failed()] == list("1234567")
    assert [i.failure_class.value for i in found.failed() if i.failure_class] == [
        *("log_not_found", "warehouse_unavailable", "unknown", "unknown", "unknown", "aborted", "timed_out")
    ]
    assert all(i.reason for i in found.failed())
    assert counts(found) == {"failed": 5, "aborted": 1, "timed_out": 1}


def test_a_file_that_is_absent_is_reported(s3: Any, found: Results) -> None:
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)]}, named=("SUCCEEDED_0", "SUCCEEDED_1", "FAILED_0"))
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"succeeded": 1}
    assert [p.split(" is ")[1] for p in found.problems] == ["named in the manifest but absent"] * 2


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b'{"a": 1}', b'[{"ExecutionArn"', b"null", b"\xff\xfe", b'[{"Input": "\xed\xa0\x80"}]']
)
def test_a_broken_file_is_reported(s3: Any, found: Results, body: bytes) -> None:
    put_results(s3, "m", {"SUCCEEDED_0": body, "FAILED_0": [entry(1, "FAILED")]})
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"failed": 1}
    assert len(found.problems) == 1


def test_entries_before_a_break_count(s3: Any, found: Results) -> None:
    body = json.dumps([entry(1), entry(2)]).encode()[:-20]
    put_results(s3, "m", {"SUCCEEDED_0": body})
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"succeeded": 1}
    assert "after 1 entries" in found.problems[0]


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        "text",
        {},
        entry(1, ExecutionArn=MISSING),
        entry(1, Input=MISSING),
        entry(1, Input="not json"),
        entry(1, Input='{"key": 5}'),
        entry(1, Input='{"size": 5}'),
        entry(1, Input="[" * 100_000),
        entry(1, Output=MISSING),
        entry(1, Output="[]"),
        entry(1, Status="FAILED"),
        entry(1, Status="RUNNING"),
    ],
)
def test_a_malformed_entry_is_no_success(found: Results, bad: Any) -> None:
    """case-R07, case-R22: reported, never a crash, never counted as success."""
    found.add(read_entry(bad, "SUCCEEDED", "file#0"))
    assert counts(found) == {"malformed": 1}


@pytest.mark.parametrize(
    "odd",
    [
        {"RedriveCount": "x"},
        {"RedriveCount": 10**30},
        {"StartDate": 5},
        {"StopDate": "yesterday"},
        {"Input": json.dumps({"key": "evals/\ud800.eval", "size": 10**30})},
        {"Error": 5, "Cause": {"a": 1}},
        {"Cause": "\ud800"},
        {"Status": 5},
    ],
)
def test_odd_failures_are_kept(found: Results, odd: dict[str, Any]) -> None:
    found.add(read_entry(entry(1, "FAILED", **odd), "FAILED", "file#0"))
    assert counts(found) == {"failed": 1}
    assert [item.outcome for item in found.failed()] == [Outcome.FAILED]


def test_pending_items_are_unfinished(s3: Any, found: Results) -> None:
    pending = entry(1, "PENDING", ExecutionArn=MISSING, Status=MISSING)
    put_results(s3, "m", {"PENDING_0": [pending, {**pending, "Input": '{"key": "evals/set/2.eval"}'}]})
    found.read(s3, BUCKET, "m")
    assert counts(found) == {"pending": 2}
    assert list(found.unfinished_keys()) == ["evals/set/1.eval", "evals/set/2.eval"]


def test_a_key_that_another_item_imported_is_finished(found: Results) -> None:
    same = json.dumps({"key": "evals/same.eval"})
    found.add(read_entry(entry(1, "FAILED", Input=same), "FAILED", "a"))
    found.add(read_entry(entry(2, Input=same), "SUCCEEDED", "b"))
    assert list(found.unfinished_keys()) == []


@pytest.mark.parametrize("manifest", [b"", b"[]", b'{"ResultFiles": 5}', b'{"ResultFiles": {"FAILED": [{}]}}', None])
def test_no_manifest_is_a_problem(s3: Any, found: Results, manifest: bytes | None) -> None:
    if manifest is not None:
        s3.put_object(Bucket=BUCKET, Key="results/m/manifest.json", Body=manifest)
    found.read(s3, BUCKET, "m")
    assert found.manifest_etag is None
    assert len(found.problems) == 1
    assert counts(found) == {}


def test_successes_without_a_manifest(s3: Any, found: Results) -> None:
    """R21: `retry` subtracts every success ever written, with or without a manifest."""
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)], "SUCCEEDED_1": [entry(2)], "FAILED_0": [entry(3, "FAILED")]})
    s3.delete_object(Bucket=BUCKET, Key="results/m/manifest.json")
    found.read_successes(s3, BUCKET, "m")
    assert counts(found) == {"succeeded": 2}
    assert found.imported("evals/set/2.eval")
    assert not found.imported("evals/set/3.eval")


def test_an_item_tells_what_a_report_needs(found: Results) -> None:
    found.add(read_entry(entry(1, "FAILED"), "FAILED", "a"))
    (item,) = found.find("evals/set/1.eval")
    assert (item.exit_code, item.job_id, item.log_stream, item.attempts) == (11, "job-1", "importer/default/0123", 1)
    assert (item.size_bytes, item.seconds, item.error) == (100, 90.5, "States.TaskFailed")
    assert item.cause_head == cause(11)[:200]


def test_a_large_file_takes_little_memory(found: Results) -> None:
    """ "FAILED file of 2 GB": the same code path with 60 MB, memory measured."""
    text = cause(20, padding=40_000)

    def body() -> Iterator[bytes]:
        yield b"["
        for number in range(2000):
            yield (b"," if number else b"") + json.dumps(entry(number, "FAILED", Cause=text)).encode()
        yield b"]"

    pieces = body()
    stream = type("Body", (), {"read": lambda self, amount: next(pieces, b"") if amount else b""})()
    s3 = type("S3", (), {"get_object": lambda self, **_: {"Body": stream}})()
    tracemalloc.start()
    try:
        found.read_file(s3, BUCKET, "results/m/FAILED_0.json", "FAILED")
        assert counts(found) == {"failed": 2000}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_identity_is_the_execution(found: Results) -> None:
    found.add(read_entry(entry(1, "FAILED"), "FAILED", "a"))
    found.add(read_entry(entry(1, "FAILED"), "FAILED", "b"))
    assert counts(found) == {"failed": 1}
    assert child(1).endswith("/Reimport:child-1")
