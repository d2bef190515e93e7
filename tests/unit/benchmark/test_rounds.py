"""Which trials are left, and in which order (B5, F18)."""

from __future__ import annotations

from collections import Counter

import pytest

from longhaul.benchmark.checkpoint import Kind
from longhaul.benchmark.rounds import Task, left
from tests.unit.benchmark.doubles import CONFIG, plan_for

MANY = """
[run]
id = "run-1"
seed = {seed}
warmups = 2
repetitions = 20
[[case]]
name = "a"
parameters = {{ command = ["a"] }}
scales = [1, 10]
[[case]]
name = "b"
parameters = {{ command = ["b"] }}
[[case]]
name = "c"
parameters = {{ command = ["c"] }}
[[job]]
id = "{job}"
"""


def names(tasks: tuple[Task, ...]) -> list[tuple[str, str]]:
    """Case and scale of each."""
    return [(task.unit.case.name, task.unit.scale) for task in tasks]


def test_repetitions_are_interleaved_in_rounds() -> None:
    """B5: each round holds each case at each scale once, and rounds differ."""
    tasks = left(plan_for(MANY.format(seed=1, job="j"), "j"), {}).tasks
    warmups, repetitions = tasks[:8], tasks[8:]
    assert {task.kind for task in warmups} == {Kind.WARMUP}
    assert {task.kind for task in repetitions} == {Kind.REPETITION}
    rounds = [repetitions[4 * k : 4 * k + 4] for k in range(20)]
    assert all({task.number for task in one} == {k} for k, one in enumerate(rounds))
    assert all(len(set(names(one))) == 4 for one in rounds)
    assert len({tuple(names(one)) for one in rounds}) > 5
    first = Counter(names(one)[0] for one in rounds)
    assert max(first.values()) < 14, "no case is always first"


def test_the_order_is_the_jobs_own() -> None:
    """B5: of seed and job, whoever runs it."""
    orders = {
        (seed, job): names(left(plan_for(MANY.format(seed=seed, job=job), job), {}).tasks)
        for seed in (1, 2)
        for job in ("j", "k")
    }
    assert len({tuple(order) for order in orders.values()}) == 4
    assert orders[1, "j"] == names(left(plan_for(MANY.format(seed=1, job="j"), "j"), {}).tasks)


@pytest.mark.parametrize("repetitions", [1, 3])
def test_everything_is_left_at_first(repetitions: int) -> None:
    """F18."""
    plan = plan_for(CONFIG.replace("repetitions = 4", f"repetitions = {repetitions}"))
    assert len(left(plan, {}).tasks) == 2 + 2 * repetitions
