"""Reports of ended runs (R18)."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from longhaul.reimport.errors import RefusedError
from longhaul.reimport.extraction import Extractor
from longhaul.reimport.runs import Runs
from longhaul.reimport.sizing import JobSize, Tiers
from tests.unit.reimport.fake_step_functions import MACHINE, START, FakeStepFunctions
from tests.unit.reimport.result_files import BUCKET, entry, put_results

TIERS = Tiers(small_max_bytes=1000, small=JobSize(vcpu="0.5", memory_mib=1024), full=JobSize(vcpu="2", memory_mib=4096))
NAMES = ("failures.jsonl", "report.md", "retry-keys.txt", "summary.json")


class Clock:
    """Time that passes by sleeping; `at` runs things when their moment comes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.today = START
        self.at: dict[float, Any] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [m for m in self.at if m <= self.now]:
            self.at.pop(moment)()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def extractor(s3: Any, sfn: FakeStepFunctions, clock: Clock) -> Extractor:
    runs = Runs(sfn, MACHINE)  # type: ignore[arg-type]
    return Extractor(
        s3=s3,
        runs=runs,
        bucket=BUCKET,
        tiers=TIERS,
        sleep=clock.sleep,
        monotonic=lambda: clock.now,
        now=lambda: clock.today,
    )


def files(s3: Any, id_: str = "m") -> dict[str, bytes]:
    return {name: s3.get_object(Bucket=BUCKET, Key=f"results/{id_}/report/{name}")["Body"].read() for name in NAMES}


def run_with_failures(s3: Any, sfn: FakeStepFunctions) -> str:
    arn = sfn.add("one", "FAILED", error="States.ExceedToleratedFailureThreshold")
    sfn.add_map_run(arn, "m", "FAILED", counts={"succeeded": 1, "failed": 2, "pending": 1})
    big = json.dumps({"key": "evals/set/big.eval", "size": 5000})
    trailing = json.dumps({"key": "evals/set/odd.eval ", "size": 5})
    put_results(
        s3,
        "m",
        {
            "SUCCEEDED_0": [entry(1)],
            "FAILED_0": [entry(2, "FAILED"), entry(3, "FAILED", Input=trailing)],
            "PENDING_0": [{"Input": big}],
        },
    )
    return arn


def test_the_four_files(s3: Any, sfn: FakeStepFunctions, extractor: Extractor) -> None:
    (report,) = extractor.extract(run_with_failures(s3, sfn), wait_seconds=0)
    written = files(s3)
    summary = json.loads(written["summary.json"])
    assert summary == report.summary
    assert (summary["status"], summary["items"], summary["complete"]) == ("FAILED", 4, True)
    assert summary["counts"] == {
        "succeeded": 1,
        "failed": 2,
        "timed_out": 0,
        "aborted": 0,
        "pending": 1,
        "malformed": 0,
    }
    assert summary["failure_classes"] == {"log_not_found": 2}
    assert summary["bytes"] == {"items": 5205, "succeeded": 100}
    assert {t: (f["items"], f["succeeded"]) for t, f in summary["tiers"].items()} == {"small": (3, 1), "full": (1, 0)}
    assert summary["item_seconds"] == {"median": 90.5, "p95": 90.5, "longest": 90.5}
    hour = 0.5 * 0.04048 + 1 * 0.004445
    assert summary["cost_estimate"]["dollars"] == pytest.approx(3 * 90.5 / 3600 * hour, abs=1e-4)
    failures = [json.loads(line) for line in written["failures.jsonl"].splitlines()]
    assert [f["key"] for f in failures] == ["evals/set/2.eval", "evals/set/odd.eval "]
    assert failures[0] == {
        "key": "evals/set/2.eval",
        "outcome": "failed",
        "class": "log_not_found",
        "exit_code": 11,
        "reason": "the log was not found or may not be read",
        "status_reason": "Essential container in task exited",
        "log_stream": "importer/default/0123",
        "job_id": "job-1",
        "attempts": 1,
    }
    assert written["retry-keys.txt"].decode().splitlines() == ["evals/set/2.eval", "evals/set/big.eval"]
    assert summary["retry_keys_left_out"] == 1
    assert "1 of 4 logs imported" in written["report.md"].decode()


def test_writing_it_again_changes_nothing(s3: Any, sfn: FakeStepFunctions, extractor: Extractor) -> None:
    """R18: idempotent."""
    arn = run_with_failures(s3, sfn)
    extractor.extract(arn, wait_seconds=0)
    before = files(s3)
    extractor.extract(arn, wait_seconds=0)
    assert files(s3) == before


def test_an_early_event_waits_for_map_run_and_manifest(
    s3: Any, sfn: FakeStepFunctions, extractor: Extractor, clock: Clock
) -> None:
    """R18: the event comes before the Map Run has ended and before its manifest is written."""
    arn = sfn.add("one")
    map_run = sfn.add_map_run(arn, "m", "RUNNING", counts={"succeeded": 1})
    clock.at[10.0] = lambda: sfn.map_runs[map_run].update(status="SUCCEEDED")
    clock.at[20.0] = lambda: put_results(s3, "m", {"SUCCEEDED_0": [entry(1)]})
    (report,) = extractor.extract(arn, wait_seconds=60)
    assert report.summary["counts"]["succeeded"] == 1
    assert report.summary["complete"]
    assert clock.now >= 20


def test_a_manifest_of_an_earlier_drive_is_not_current(
    s3: Any, sfn: FakeStepFunctions, extractor: Extractor, clock: Clock
) -> None:
    """R17, R18: after a redrive the old manifest stands there until the new one is written."""
    arn = run_with_failures(s3, sfn)
    sfn.map_runs[next(iter(sfn.map_runs))]["redriveDate"] = datetime.now(UTC) + timedelta(hours=1)
    (report,) = extractor.extract(arn, wait_seconds=10)
    assert not report.summary["complete"]
    assert report.summary["counts"]["succeeded"] == 0
    assert report.summary["not_in_results"] == 4
    assert "not written yet" in report.summary["problems"][0]


def test_a_run_that_is_still_running_is_refused(sfn: FakeStepFunctions, extractor: Extractor) -> None:
    sfn.add_map_run(sfn.add("one"), "m", "RUNNING")
    with pytest.raises(RefusedError, match="still running"):
        extractor.extract(next(iter(sfn.executions)), wait_seconds=10)
    with pytest.raises(RefusedError, match="is running"):
        extractor.extract(sfn.add("redriven", "RUNNING"), wait_seconds=10)


def test_every_map_run_has_a_report(s3: Any, sfn: FakeStepFunctions, extractor: Extractor) -> None:
    arn = sfn.add("one")
    for id_ in ("m", "n"):
        sfn.add_map_run(arn, id_, counts={"succeeded": 1})
        put_results(s3, id_, {"SUCCEEDED_0": [entry(1)]})
    assert [r.prefix for r in extractor.extract(arn, 0)] == ["results/m/report/", "results/n/report/"]


def test_the_sweep_writes_what_is_missing_or_out_of_date(
    s3: Any, sfn: FakeStepFunctions, extractor: Extractor, clock: Clock
) -> None:
    """R18: lost events are made up for; reports that are up to date are left alone."""
    arn = run_with_failures(s3, sfn)
    sfn.add_map_run(sfn.add("running", "RUNNING"), "r", "RUNNING")
    sfn.add_map_run(sfn.add("without-results", "FAILED"), "w", "FAILED")
    sfn.add("rejected", "FAILED")
    clock.today = sfn.executions[arn]["stopDate"] + timedelta(days=1)
    assert extractor.sweep() == [arn]
    assert extractor.sweep() == []
    put_results(s3, "m", {"SUCCEEDED_0": [entry(i) for i in range(4)]})
    assert extractor.sweep() == [arn]
    assert json.loads(files(s3)["summary.json"])["counts"]["succeeded"] == 4


def test_a_run_that_is_redriven_during_the_sweep_holds_up_no_other(
    s3: Any, sfn: FakeStepFunctions, extractor: Extractor, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = run_with_failures(s3, sfn)
    sfn.add_map_run(sfn.add("redriven", "FAILED"), "r", "FAILED", counts={"failed": 1})
    put_results(s3, "r", {"FAILED_0": [entry(1, "FAILED")]})
    clock.today = sfn.executions[arn]["stopDate"] + timedelta(days=1)
    describe = extractor.runs.describe

    def redriven(run_arn: str) -> Any:
        found = describe(run_arn)
        return dataclasses.replace(found, status="RUNNING") if found.name == "redriven" else found

    monkeypatch.setattr(extractor.runs, "describe", redriven)
    assert [run.name for run in extractor.runs.recent()] == ["redriven", "one"]
    assert extractor.sweep() == [arn]


def test_the_sweep_leaves_old_runs_alone(s3: Any, sfn: FakeStepFunctions, extractor: Extractor, clock: Clock) -> None:
    arn = run_with_failures(s3, sfn)
    clock.today = sfn.executions[arn]["stopDate"] + timedelta(days=16)
    assert extractor.sweep() == []


def test_a_manifest_that_is_not_coming_is_not_waited_for(
    sfn: FakeStepFunctions, extractor: Extractor, clock: Clock
) -> None:
    empty, old = sfn.add("empty"), sfn.add("old")
    sfn.add_map_run(empty, "e")
    sfn.add_map_run(old, "o", counts={"failed": 1})
    clock.today = sfn.executions[empty]["startDate"]
    assert extractor.extract(empty, wait_seconds=60)[0].summary["complete"]
    clock.today += timedelta(hours=1)
    assert not extractor.extract(old, wait_seconds=60)[0].summary["complete"]
    assert clock.now == 0


def test_keys_cannot_break_the_markdown(s3: Any, sfn: FakeStepFunctions, extractor: Extractor) -> None:
    arn = sfn.add("one")
    sfn.add_map_run(arn, "m", counts={"failed": 1})
    odd = json.dumps({"key": "evals/`` `\x1b[31m|\n# x.eval"})
    put_results(s3, "m", {"FAILED_0": [entry(1, "FAILED", Input=odd)]})
    text = extractor.extract(arn, 0)[0].markdown
    assert "- ``` evals/`` `\\x1b[31m|\\n# x.eval ```: " in text


@pytest.mark.parametrize(
    ("redrives", "said"), [(0, "Redriven never."), (1, "Redriven once."), (3, "Redriven 3 times.")]
)
@pytest.mark.parametrize(("failed", "heading"), [(2, "What failed:"), (21, "The first 20 failures; failures.jsonl")])
def test_the_report_is_written_for_people(
    s3: Any, sfn: FakeStepFunctions, extractor: Extractor, redrives: int, said: str, failed: int, heading: str
) -> None:
    """Whole seconds, and numbers that fit their words."""
    arn = sfn.add("one", "FAILED", startDate=START + timedelta(microseconds=123456))
    sfn.add_map_run(arn, "m", "FAILED", redriveCount=redrives, counts={"failed": failed})
    put_results(s3, "m", {"FAILED_0": [entry(i, "FAILED") for i in range(failed)]})
    text = extractor.extract(arn, 0)[0].markdown
    assert said in text
    assert heading in text
    assert text.count("- `evals/") == min(failed, 20)
    assert "Started 2026-06-01 12:00:00 UTC, ended 2026-06-01 12:00:00 UTC." in text
