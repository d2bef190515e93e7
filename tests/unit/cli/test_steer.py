"""`list`, `status`, `watch`, `throttle`, `stop`, `redrive` (R20 to R22)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.cli.conftest import FakeBatch, Longhaul
from tests.unit.reimport.fake_step_functions import FakeStepFunctions, execution_arn


def ended_now(sfn: FakeStepFunctions, name: str, status: str, **more: Any) -> str:
    return sfn.add(name, status, stopDate=datetime.now(UTC), **more)


def test_list_newest_first_and_limited(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    for number in range(3):
        sfn.add(f"run-{number}", "RUNNING" if number == 1 else "SUCCEEDED")
    lines = longhaul("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "run-2", "run-1", "run-0"]
    done = longhaul("list", "--limit", "2", "--json")
    assert [run["name"] for run in json.loads(done.stdout)] == ["run-2", "run-1"]
    assert [run["name"] for run in json.loads(longhaul("list", "--running", "--json").stdout)] == ["run-1"]


def test_list_without_runs_prints_no_data(longhaul: Longhaul) -> None:
    done = longhaul("list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert json.loads(longhaul("list", "--json").stdout) == []


def test_status_by_prefix(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    arn = sfn.add("june", "FAILED", error="E", cause="because \x1b[31m")
    sfn.add_map_run(arn, "m", "FAILED", counts={"succeeded": 1, "timedOut": 2}, maxConcurrency=3)
    done = longhaul("status", "ju")
    for words in (
        "june: FAILED",
        "E: because \\x1b[31m",
        "cap        3 (the input says 8)",
        "1 of 3 succeeded, 2 timed",
    ):
        assert words in done.stdout
    answer = json.loads(longhaul("status", arn, "--json").stdout)
    assert answer["map_runs"][0]["items"]["timed_out"] == 2


def test_unknown_and_ambiguous_runs(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    for name in ("june-1", "june-2"):
        sfn.add(name)
    for verb in (["status"], ["watch"], ["stop", "--yes"], ["failures"], ["throttle", "--max-concurrency", "2"]):
        assert longhaul(*verb, "july").exit_code == 1
        assert "2 runs begin with june" in longhaul(*verb, "june").stderr
        assert longhaul(*verb, "no/name").exit_code == 2


def test_throttle(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add_map_run(sfn.add("june", "RUNNING"), "m", "RUNNING", counts={"running": 8})
    done = longhaul("throttle", "june", "--max-concurrency", "2")
    assert (done.exit_code, done.stdout) == (0, "june: cap 8 -> 2, 8 running\n")
    assert "would go back to the cap of its input, 8" in done.stderr
    assert sfn.calls == [("update_map_run", {"maxConcurrency": 2})]


@pytest.mark.parametrize("cap", ["0", "-1", "ten", "10001", "33", "1.5", ""])
def test_bad_caps_are_refused(longhaul: Longhaul, sfn: FakeStepFunctions, cap: str) -> None:
    """case-R21: 0 is no pause."""
    sfn.add_map_run(sfn.add("june", "RUNNING"), "m", "RUNNING")
    assert longhaul("throttle", "june", "--max-concurrency", cap).exit_code == 2
    assert sfn.calls == []


def test_throttle_needs_a_running_map_run(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add("reading", "RUNNING")
    assert "no Map Run yet" in longhaul("throttle", "reading", "--max-concurrency", "2").stderr
    sfn.add("ended", "FAILED")
    assert "is not running" in longhaul("throttle", "ended", "--max-concurrency", "2").stderr


def test_stop_asks_and_lists_what_is_still_alive(longhaul: Longhaul, sfn: FakeStepFunctions, batch: FakeBatch) -> None:
    """case-R20: three running and five queued jobs: all end or are listed."""
    arn = sfn.add("june", "RUNNING")
    sfn.add_map_run(arn, "m", "RUNNING", counts={"running": 8})
    for number in range(8):
        batch.add(f"job-{number}", f"evals/{number}.eval", arn, "RUNNING" if number < 3 else "RUNNABLE")
    batch.add("other", "evals/x.eval", "another")
    refused = longhaul("stop", "june")
    assert (refused.exit_code, sfn.calls) == (2, [])
    assert "give --yes" in refused.stderr
    done = longhaul("stop", "june", "--yes", "--wait", "0", "--reason", "busy")
    assert done.exit_code == 0
    assert sfn.calls == [("stop_execution", {"cause": "busy"})]
    assert "8 jobs still alive" in done.stderr
    assert sum("evals/" in line for line in done.stderr.splitlines()) == 8
    assert "other" not in done.stderr
    assert "redrive june" in done.stderr


def test_stop_of_an_ended_run(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add("june", "SUCCEEDED")
    assert longhaul("stop", "june", "--yes").exit_code == 1


def test_redrive_says_what_it_will_do(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    """R21, case-R19: cap, lowered cap, a new definition."""
    given = {"list_key": "lists/june.json", "max_concurrency": 6}
    arn = ended_now(sfn, "june", "FAILED", input_=given, definition='{"StartAt": "before"}')
    sfn.add_map_run(arn, "m", "FAILED", counts={"succeeded": 1, "failed": 2, "pending": 3}, maxConcurrency=2)
    assert longhaul("redrive", "june").exit_code == 2
    done = longhaul("redrive", "june", "--yes")
    assert done.exit_code == 0
    for words in ("5 items left, cap 6", "lowered to 2", "input's 6 again", "new definition was deployed since"):
        assert words in done.stderr.replace("\n", " ")
    assert done.stdout.splitlines()[0] == arn
    assert sfn.calls == [("redrive_execution", {"arn": arn})]


def test_redrive_without_surprises_warns_of_nothing(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add_map_run(ended_now(sfn, "june", "ABORTED"), "m", "ABORTED", counts={"aborted": 1})
    assert "Warning" not in longhaul("redrive", "june", "--yes").stderr


def test_redrives_that_are_refused(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    """R16, case-R19: SUCCEEDED and over 14 days name `retry`."""
    sfn.add("good", "SUCCEEDED")
    sfn.add("old", "FAILED", stopDate=datetime.now(UTC) - timedelta(days=15))
    for name in ("good", "old"):
        done = longhaul("redrive", name, "--yes")
        assert done.exit_code == 1
        assert f"longhaul reimport retry {name} --name" in done.stderr
    assert sfn.calls == []


def test_redrive_waits_for_a_stop_that_is_under_way(
    longhaul: Longhaul, sfn: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case-R20: an immediate redrive explains waiting, then redrives."""
    arn = ended_now(sfn, "june", "ABORTED")
    map_run = sfn.add_map_run(arn, "m", "RUNNING", counts={"running": 3})
    done = longhaul("redrive", "june", "--yes", "--wait", "0")
    assert (done.exit_code, "3 jobs are being stopped" in done.stderr) == (1, True)
    monkeypatch.setattr("time.sleep", lambda seconds: sfn.map_runs[map_run].update(status="ABORTED"))
    done = longhaul("redrive", "june", "--yes")
    assert done.exit_code == 0
    assert "waiting up to 300 s" in done.stderr
    assert sfn.calls == [("redrive_execution", {"arn": arn})]


@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("ABORTED", 1), ("TIMED_OUT", 1)])
def test_watch_until_run_and_map_run_have_ended(
    longhaul: Longhaul, sfn: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    """R21: plain lines where there is no terminal; the exit code says how the run ended; 2 s between looks."""
    arn = sfn.add("june", "RUNNING")
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            map_run = sfn.add_map_run(arn, "m", "RUNNING", counts={"running": 1, "pending": 1})
        else:
            map_run = next(iter(sfn.map_runs), "")
        if len(naps) == 4:
            sfn.executions[arn] |= {"status": status}
        if len(naps) == 5:
            counts = {"running": 0, "pending": 0, "succeeded": 2 - code, "failed": code}
            sfn.map_runs[map_run]["itemCounts"] |= counts
            sfn.map_runs[map_run]["status"] = "FAILED" if code else "SUCCEEDED"

    monkeypatch.setattr("time.sleep", nap)
    done = longhaul("watch", "june")
    assert done.exit_code == code
    said = [line.split(" ", 1)[1] for line in done.stderr.splitlines()]
    assert said[0] == "reading the list"
    assert said[1] == "0 of 2 succeeded, 1 running, 1 pending, cap 8"
    assert said[2].endswith("stopping")
    assert done.stdout == f"june: {status}, {2 - code} of 2 succeeded{', 1 failed' * code}\n"
    assert set(naps) == {2.0}


def test_watch_may_not_poll_faster(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add("june")
    assert longhaul("watch", "june", "--interval", "1.9").exit_code == 2


def test_leaving_watch_leaves_the_run_alone(
    longhaul: Longhaul, sfn: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sfn.add("june", "RUNNING")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    done = longhaul("watch", "june")
    assert (done.exit_code, "june goes on" in done.stderr, sfn.calls) == (130, True, [])


def test_watch_as_json(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add_map_run(sfn.add("june"), "m", counts={"succeeded": 2})
    answer = json.loads(longhaul("watch", "june", "--json").stdout)
    assert (answer["status"], answer["map_run"]["items"]["succeeded"]) == ("SUCCEEDED", 2)
    assert answer["arn"] == execution_arn("june")
