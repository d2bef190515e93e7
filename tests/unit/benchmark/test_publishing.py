"""Reports of what lies on this host (F20, S10, S71)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from longhaul.benchmark.attempts import FolderSource, read
from longhaul.benchmark.checkpoint import STORED, Outcome
from longhaul.benchmark.errors import ReportError
from longhaul.benchmark.publishing import publish, summaries
from longhaul.fleet.keys import Attempt
from longhaul.fleet.work import Merged
from tests.unit.benchmark.doubles import CONFIG, plan_for
from tests.unit.benchmark.test_merge import record, store

ONE = plan_for(CONFIG.replace('name = "b"', 'name = "b"\nunsupported = "no"'))


def completed(job: Path, generations: range, attempt: Attempt) -> None:
    """Let an attempt publish what lies there now."""
    output = job / f"g{attempt.generation}" / f"attempt-{attempt.number}"
    publish(
        ONE,
        FolderSource(job),
        generations=generations,
        attempt=attempt,
        output=output,
        key_prefix=f"fleet/q/results/{job.name}/",
    )


def test_s71_a_done_jobs_report_is_what_it_was(tmp_path: Path) -> None:
    """S71: what landed later is late; what a report leaves is what the fleet reads."""
    job = tmp_path / "j"
    store(job, record(0, 2), record(1, 2))
    completed(job, range(1), Attempt(generation=0, number=2))
    merged = msgspec.json.decode((job / "g0/attempt-2/merged.json").read_bytes(), type=Merged)
    assert {one.key.split("/checkpoint/")[0] for one in merged.records} == {"fleet/q/results/j/g0/attempt-2"}
    (before,) = summaries(job)
    store(job, record(0, 1, seconds=99), record(2, 1))
    (after,) = summaries(job)
    assert after.cases == before.cases
    assert len(after.late) == 4
    assert before.late == ()


def test_a_first_attempt_is_reported_from_what_s3_said_that_it_stored(tmp_path: Path) -> None:
    """F20, I3: nobody else can have left anything, so nothing is listed; what differs here is fetched."""
    there, here = tmp_path / "s3/j", tmp_path / "host/j"
    for job in (there, here):
        store(job, record(0, 1), record(1, 1))
    output = here / "g0/attempt-1"
    known = [one for one in FolderSource(there).list() if "rep-0" in one.name]
    lines = [msgspec.json.encode({"name": one.name.removeprefix("g0/attempt-1/"), "etag": one.etag}) for one in known]
    (output / STORED).write_bytes(b"\n".join(lines) + b"\n")
    for path in output.glob("checkpoint/*rep-0*"):
        path.write_bytes(b"half")
    attempt = Attempt(generation=0, number=1)
    merged = publish(
        ONE, FolderSource(there), generations=range(1), attempt=attempt, output=output, key_prefix="results/j/"
    )
    assert [(one.key, one.etag) for one in merged.records] == [(f"results/j/{one.name}", one.etag) for one in known]
    assert len(known) == 2


def test_later_attempts_are_reported_from_all_that_is_there(tmp_path: Path) -> None:
    """F20: whatever the last one knows of its own."""
    job = tmp_path / "j"
    store(job, record(0, 1), record(1, 2))
    (job / "g0/attempt-2" / STORED).write_bytes(b"")
    completed(job, range(1), Attempt(generation=0, number=2))
    merged = msgspec.json.decode((job / "g0/attempt-2/merged.json").read_bytes(), type=Merged)
    assert len(merged.records) == 4


def test_a_requeue_starts_afresh_unless_told(tmp_path: Path) -> None:
    """F20: the last generation counts, and it is said that others were left out."""
    job = tmp_path / "j"
    store(job, record(0, 1, seconds=5), record(1, 1))
    store(job, record(0, 2, seconds=7, generation=1))
    (fresh,) = summaries(job)
    assert (fresh.successful, fresh.cases[0].seconds) == (1, (7.0,))
    assert "generations left out, since a requeue starts afresh (--generations takes them in): 0" in fresh.warnings
    (both,) = summaries(job, range(2))
    assert (both.successful, both.cases[0].seconds) == (2, (5.0, 2.0))
    assert not any("left out" in warning for warning in both.warnings)
    with pytest.raises(ReportError, match="no attempts of those generations; it has: 0, 1"):
        summaries(job, range(5, 7))


def test_a_requeue_that_resumed_says_so_itself(tmp_path: Path) -> None:
    """F20: by the completion's records, not by guesses."""
    job = tmp_path / "j"
    store(job, record(0, 1), record(1, 1, Outcome.FAILED))
    store(job, record(1, 2, generation=1))
    completed(job, range(2), Attempt(generation=1, number=2))
    (made,) = summaries(job)
    assert (made.successful, made.failed, made.superseded) == (2, 0, 1)
    assert not any("left out" in warning for warning in made.warnings)


def test_one_attempt_of_a_job(tmp_path: Path) -> None:
    """Nothing of it is late, nothing else is counted."""
    job = tmp_path / "j"
    store(job, record(0, 1), record(1, 2))
    (made,) = summaries(job / "g0" / "attempt-2")
    assert (made.successful, made.late, [one.attempt for one in made.attempts]) == (1, (), [2])


def test_s10_each_job_has_a_report_of_its_own(tmp_path: Path) -> None:
    """S10: of a folder above them."""
    for name in ("j", "k"):
        store(tmp_path / "results" / name, record(0, 1, job=name))
    assert [one.job for one in summaries(tmp_path)] == ["j", "k"]


def test_what_holds_no_attempts_is_refused(tmp_path: Path) -> None:
    """And so is a completion that is none."""
    with pytest.raises(ReportError, match="holds no attempts"):
        summaries(tmp_path)
    store(tmp_path / "j", record(0, 1))
    (tmp_path / "j/g0/attempt-1/merged.json").write_text(json.dumps({"records": 3}))
    with pytest.raises(ReportError, match=r"merged\.json"):
        summaries(tmp_path)


def test_a_report_of_nothing_is_a_report(tmp_path: Path) -> None:
    """S8, F17: an abandoned job has one too; all that was planned is missing."""
    output = tmp_path / "j" / "g0" / "attempt-5"
    output.mkdir(parents=True)
    completed(tmp_path / "j", range(1), Attempt(generation=0, number=5))
    summary = json.loads((output / "job-summary.json").read_text())
    assert [(case["case"][:1], case["n"], case["missing"]) for case in summary["cases"]] == [("a", 0, 4), ("b", 0, 0)]
    assert json.loads((output / "merged.json").read_text())["failed"] == 4
    assert read(FolderSource(tmp_path / "j"), generations=range(1)).records == ()
