"""Cap, tolerance, stop and redrive of the deployed re-import (R13-R17)."""

import contextlib
import itertools
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.contract.warehouse.test_oracle import compare_eval, compare_sample
from tests.sandbox.reimport import logs
from tests.sandbox.reimport.operating import Operator, most_at_once, until

MISSING = ({"key": f"evals/missing/{n}.eval"} for n in itertools.count())


def spans(jobs: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(job["startedAt"], job["stoppedAt"]) for job in jobs]


def importers(operator: Operator) -> list[psutil.Process]:
    """The processes that this sandbox's Batch started: all children of its keeper but the functions' workers."""
    server = psutil.Process(json.loads((operator.sandbox.folder / "state.json").read_text())["pid"])
    [keeper] = [child for child in server.children() if "sandbox.keeper" in child.cmdline()]
    found = []
    for child in keeper.children():
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            if "function_runtime" not in " ".join(child.cmdline()):
                found.append(child)
    return found


@pytest.mark.filterwarnings("ignore")  # inspect_ai's
def test_r13_the_cap_and_w8_the_rows_of_two_hundred_logs(operator: Operator, tmp_path: Path) -> None:
    bodies = [logs.clone(1000 + n) for n in range(200)]
    with operator.quiet():
        items = [operator.put(body, f"evals/two-hundred/{n}.eval") for n, body in enumerate(bodies)]
    execution = operator.start(items, max_concurrency=8)
    assert operator.ended(execution, 240)["status"] == "SUCCEEDED"
    jobs = operator.jobs(execution)
    assert len(jobs) == 200
    assert {job["status"] for job in jobs} == {"SUCCEEDED"}
    assert 4 < most_at_once(spans(jobs)) <= 8
    ids = [logs.eval_id(body) for body in bodies]
    counts = operator.rows("select eval_id, count(*) from sample where eval_id = any(%s) group by eval_id", ids)
    assert dict(counts) == dict.fromkeys(ids, 4)

    from inspect_ai.log import read_eval_log

    url = operator.sandbox.env["DATABASE_URL"]
    for number in range(0, 200, 20):
        path = tmp_path / f"{number}.eval"
        path.write_bytes(bodies[number])
        log = read_eval_log(str(path), resolve_attachments="full")
        assert log.samples[0].input == f"What is {1000 + number}+0?", "another log's content would not be noticed"
        log.eval.eval_set_id = log.eval.eval_set_id or "two-hundred"  # where the log is silent its key says it
        compare_eval(url, log)
        for sample in log.samples:
            compare_sample(url, log, sample)


@pytest.mark.parametrize(("failing", "status"), [(1, "SUCCEEDED"), (2, "SUCCEEDED"), (3, "FAILED")])
def test_r15_fails_above_the_tolerance_not_at_it(operator: Operator, failing: int, status: str) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(10 - failing)]
    execution = operator.start([*itertools.islice(MISSING, failing), *items], tolerated_failure_percentage=20)
    ended = operator.ended(execution)
    assert ended["status"] == status
    counts = operator.counts(execution)
    assert counts["failed"] == failing
    assert counts["total"] == 10
    if status == "FAILED":
        assert ended["error"] == "States.ExceedToleratedFailureThreshold"


def test_r13_the_cap_can_be_raised_and_lowered_while_it_runs(operator: Operator) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(24)]
    with operator.held_warehouse():
        execution = operator.start(items, max_concurrency=2)
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 2)
        time.sleep(1)
        assert len(operator.jobs(execution, "RUNNING")) == 2
        map_run = operator.map_run(execution)["mapRunArn"]
        operator.sfn.update_map_run(mapRunArn=map_run, maxConcurrency=6)
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 6)
        first = {job["jobId"] for job in operator.jobs(execution, "RUNNING")}
        operator.sfn.update_map_run(mapRunArn=map_run, maxConcurrency=2)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    later = [job for job in operator.jobs(execution) if job["jobId"] not in first]
    assert len(later) == 18
    assert most_at_once(spans(later)) <= 2


def test_r16_stop_leaves_no_importer_and_redrive_runs_only_the_rest(operator: Operator) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(8)]
    first, rest = items[0], items[1:]
    with operator.held_warehouse():
        execution = operator.start([first, *rest], max_concurrency=3)
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 3)
        until(lambda: len(importers(operator)) == 3)  # the keeper forks a moment after it was told to
        operator.sfn.stop_execution(executionArn=execution, error="Operator", cause="database busy")
        ended = operator.ended(execution)
        assert (ended["status"], ended["error"], ended["cause"]) == ("ABORTED", "Operator", "database busy")
        until(lambda: not operator.jobs(execution, "RUNNING", "STARTING", "SUBMITTED", "RUNNABLE", "PENDING"))
        until(lambda: not importers(operator))
    jobs = operator.jobs(execution)
    assert [job["status"] for job in jobs] == ["FAILED"] * 3
    assert {len(found) for found in operator.results(execution).values()} == {0, 3, 5}

    operator.sfn.redrive_execution(executionArn=execution)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    keys = [job["container"]["command"][6] for job in operator.jobs(execution)]
    assert sorted(set(keys)) == sorted(item["key"] for item in items)
    assert len(keys) == 3 + 8
    redriven = operator.results(execution)["SUCCEEDED"]
    assert sorted(record["RedriveCount"] for record in redriven) == [0] * 5 + [1] * 3


def test_r16_redrive_leaves_alone_what_succeeded(operator: Operator) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(5)]
    late = "evals/late/log.eval"
    execution = operator.start([*items, {"key": late}], max_concurrency=1, tolerated_failure_percentage=0)
    assert operator.ended(execution)["status"] == "FAILED"
    assert operator.counts(execution)["succeeded"] == 5
    with operator.quiet():
        operator.put(logs.clone(50), late)
    operator.sfn.redrive_execution(executionArn=execution)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    assert len(operator.jobs(execution)) == 7
    assert operator.counts(execution) == {"succeeded": 6, "total": 6, "resultsWritten": 6}


def test_w2_r16_importers_killed_at_twenty_moments_then_a_redrive(operator: Operator) -> None:
    """Half an import is never visible, and a redrive brings what the killed ones owe."""
    bodies = [logs.clone(2000 + n) for n in range(120)]
    ids = [logs.eval_id(body) for body in bodies]
    with operator.quiet():
        items = [operator.put(body, f"evals/killed/{n}.eval") for n, body in enumerate(bodies)]
    execution = operator.start(items, max_concurrency=4, tolerated_failure_percentage=100)
    rng, killed = random.Random(5), 0
    while killed < 20:
        assert operator.describe(execution)["status"] == "RUNNING", f"it was over after {killed} kills: take more logs"
        time.sleep(rng.random() * 0.15)
        for process in importers(operator)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, (signal.SIGKILL, signal.SIGTERM)[killed % 2])
                killed += 1
        rows = operator.rows("select count(*) from sample where eval_id = any(%s) group by eval_id", ids)
        assert {count for (count,) in rows} <= {4}, "half an import is visible"
    operator.sfn.stop_execution(executionArn=execution)
    until(lambda: operator.map_run(execution)["status"] == "ABORTED")
    ended = [job for job in operator.jobs(execution) if job["status"] == "FAILED"]
    assert len(ended) > 4, "kills that nobody noticed"

    operator.sfn.redrive_execution(executionArn=execution)
    assert operator.ended(execution, 120)["status"] == "SUCCEEDED"
    assert operator.counts(execution)["succeeded"] == len(items)
    rows = operator.rows("select count(*) from sample where eval_id = any(%s) group by eval_id", ids)
    assert rows == [(4,)] * len(items)
