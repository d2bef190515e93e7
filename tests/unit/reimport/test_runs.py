"""Runs: names, redrives, caps (R16, R20 to R22)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, RefusedError, RunNotFoundError
from longhaul.reimport.runs import (
    MapRun,
    Runs,
    StillEndingError,
    aborting_failures,
    check_cap,
    check_redrivable,
    console_url,
    execution_input,
)
from tests.unit.reimport.fake_step_functions import MACHINE, START, FakeStepFunctions, execution_arn


@pytest.fixture
def runs(sfn: FakeStepFunctions) -> Runs:
    return Runs(sfn, MACHINE)  # type: ignore[arg-type]


def test_resolve_by_name_arn_and_prefix(runs: Runs, sfn: FakeStepFunctions) -> None:
    """R22; an exact name wins over longer ones that begin so."""
    for name in ("june", "june-2", "july"):
        sfn.add(name)
    assert runs.resolve("june").name == "june"
    assert runs.resolve(execution_arn("july")).name == "july"
    assert runs.resolve("jul").name == "july"
    with pytest.raises(RunNotFoundError, match="3 runs begin with ju: july, june-2, june"):
        runs.resolve("ju")
    with pytest.raises(RunNotFoundError, match="no run is called may"):
        runs.resolve("may")
    with pytest.raises(RunNotFoundError, match="no execution"):
        runs.resolve(execution_arn("may"))


@pytest.mark.parametrize("given", ["", "a b", "x" * 81, "a/b", "*", execution_arn("x").replace("dev-", "prd-")])
def test_what_cannot_be_a_run(runs: Runs, given: str) -> None:
    with pytest.raises(InvalidArgumentError):
        runs.resolve(given)


def test_a_prefix_is_looked_for_on_all_pages(runs: Runs, sfn: FakeStepFunctions) -> None:
    """case-R06: the oldest of 250 runs."""
    for number in range(250):
        sfn.add(f"run-{number:03}")
    sfn.add("other")
    assert runs.resolve("run-000").name == "run-000"
    with pytest.raises(RunNotFoundError, match=r"250 runs begin with run-: .* and 245 more"):
        runs.resolve("run-")


def test_the_same_name_is_refused_running_and_ended(runs: Runs, sfn: FakeStepFunctions) -> None:
    """case-R11, R20: StartExecution would answer success for the same name and input while running: look first."""
    given = execution_input("lists/one.json", 8, 0.5)
    arn = runs.start("one", given)
    with pytest.raises(NameTakenError, match="RUNNING"):
        runs.start("one", given)
    sfn.executions[arn] |= {"status": "SUCCEEDED"}
    with pytest.raises(NameTakenError, match="SUCCEEDED"):
        runs.start("one", given)
    assert [call for call, _ in sfn.calls] == ["start_execution"]


def test_a_name_taken_between_look_and_start(runs: Runs, sfn: FakeStepFunctions, monkeypatch: Any) -> None:
    sfn.add("one")
    monkeypatch.setattr(runs, "check_free", lambda name: None)
    with pytest.raises(NameTakenError):
        runs.start("one", {})


@pytest.mark.parametrize("cap", [0, -1, 33, 10_001, True, 1.5, "8"])
def test_bad_caps(cap: Any) -> None:
    """case-R21: 0 is never taken for a pause, nor passed on."""
    with pytest.raises(InvalidArgumentError):
        check_cap(cap)


@pytest.mark.parametrize("percentage", [-0.1, 100.1, float("nan"), float("inf")])
def test_bad_tolerances(percentage: float) -> None:
    with pytest.raises(InvalidArgumentError):
        execution_input("lists/a.json", 8, percentage)


def test_a_list_elsewhere_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="lists/"):
        execution_input("results/a.json", 8, 0.5)


@pytest.mark.parametrize(
    ("items", "percentage", "fatal"),
    [
        (50, 0.5, 1),
        (200, 0.5, 2),
        (199, 0.5, 1),
        (10, 20, 3),
        (100, 7, 8),
        (1, 0, 1),
        (10, 100, None),
        (1000, 32.3, 324),
    ],
)
def test_failures_that_abort(items: int, percentage: float, fatal: int | None) -> None:
    """R15, R20: more than the percentage of all items; 0.5 % of 50 is the first one."""
    assert aborting_failures(items, percentage) == fatal


def map_runs(sfn: FakeStepFunctions, runs: Runs, name: str, status: str) -> list[MapRun]:
    sfn.add_map_run(execution_arn(name), name, status, counts={"running": 3} if status == "RUNNING" else {})
    return runs.map_runs(execution_arn(name))


def test_redrive_of_a_success_names_retry(runs: Runs, sfn: FakeStepFunctions) -> None:
    run = runs.describe(sfn.add("one", "SUCCEEDED"))
    with pytest.raises(RefusedError, match="retry one --name"):
        check_redrivable(run, [], START)


def test_redrive_after_14_days_names_retry(runs: Runs, sfn: FakeStepFunctions) -> None:
    """case-R19."""
    run = runs.describe(sfn.add("one", "FAILED"))
    assert run.stopped is not None
    check_redrivable(run, [], run.stopped + timedelta(days=14))
    with pytest.raises(RefusedError, match=r"15 days ago.*retry one --name"):
        check_redrivable(run, [], run.stopped + timedelta(days=15))


def test_redrive_of_a_refused_input(runs: Runs, sfn: FakeStepFunctions) -> None:
    run = runs.describe(sfn.add("one", "FAILED", error="InvalidInput", cause="list_key is missing"))
    with pytest.raises(RefusedError, match=r"list_key is missing.*start anew"):
        check_redrivable(run, [], START)


def test_redrive_of_a_running_run(runs: Runs, sfn: FakeStepFunctions) -> None:
    with pytest.raises(RefusedError, match="still running"):
        check_redrivable(runs.describe(sfn.add("one", "RUNNING")), [], START)


def test_redrive_while_the_jobs_are_being_stopped(runs: Runs, sfn: FakeStepFunctions) -> None:
    """case-R20: ABORTED already, the Map Run is not."""
    run = runs.describe(sfn.add("one", "ABORTED"))
    with pytest.raises(StillEndingError, match="3 jobs are being stopped"):
        check_redrivable(run, map_runs(sfn, runs, "one", "RUNNING"), START)


def test_a_new_definition_is_noticed_whatever_its_spacing(runs: Runs, sfn: FakeStepFunctions) -> None:
    """case-R19."""
    run = runs.describe(sfn.add("one", "FAILED"))
    assert not runs.redeployed(run)
    sfn.definition = '{"StartAt": "elsewhere"}'
    assert runs.redeployed(run)


def test_an_input_by_hand_is_no_crash(runs: Runs, sfn: FakeStepFunctions) -> None:
    for given in ("text", [], {"list_key": 3, "max_concurrency": "8"}):
        run = runs.describe(sfn.add("odd", "FAILED", input_=given))
        assert (run.list_key, run.max_concurrency) == (None, 8)


def test_a_cap_of_4_0_is_4_as_the_state_machine_takes_it(runs: Runs, sfn: FakeStepFunctions) -> None:
    run = runs.describe(sfn.add("odd", "FAILED", input_={"list_key": "lists/a.json", "max_concurrency": 4.0}))
    assert json.dumps(run.max_concurrency) == "4"


def test_console_url_of_each_partition() -> None:
    url = console_url(execution_arn("a"))
    assert url.startswith(
        "https://us-east-1.console.aws.amazon.com/states/home?region=us-east-1#/v2/executions/details/"
    )
    assert url.endswith("arn:aws:states:us-east-1:123456789012:execution:dev-hawk-eval-log-reimport:a")
    assert "console.amazonaws.cn" in console_url(execution_arn("a").replace("arn:aws:", "arn:aws-cn:"))
