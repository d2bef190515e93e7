"""A bounded number of schedules of whole workers; `make simulate` runs more of them."""

from __future__ import annotations

import pytest

from longhaul.benchmark import quiesce
from tests.simulation import choices, schedule
from tests.simulation.workers import schedule as workers

SEEDS = 60


def test_no_schedule_of_workers_breaks_an_invariant() -> None:
    """I1 to I10, L1 to L5, E1 and E2, over the first seeds."""
    failures = {seed: result.violation for seed in range(SEEDS) if (result := workers.run(seed)).violation}
    assert not failures


def test_a_seed_is_always_the_same_schedule_of_workers() -> None:
    """Whatever fails can be looked at again, from its seed and from its line."""
    seed = next(seed for seed in range(100) if len(workers.run(seed).made) > 20)
    traces: list[list[str]] = [[], [], []]
    first = workers.run(seed, trace=traces[0].append)
    workers.run(seed, trace=traces[1].append)
    again = workers.run(script=choices.parse(choices.line(first.made)), trace=traces[2].append)
    assert traces[0] == traces[1] == traces[2]
    assert again.made == first.made


def test_with_dull_choices_every_job_takes_one_attempt_and_every_host_goes() -> None:
    """L5: the schedule of all zeros."""
    trace: list[str] = []
    assert workers.run(script={}, trace=trace.append).violation is None
    assert not any("attempt-2" in line for line in trace)
    assert sum(line.endswith("is gone: retires") for line in trace) == 2


def test_what_fails_among_workers_shrinks_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for queries that run beside a trial: found, shrunk, and there again from its line."""
    monkeypatch.setattr(quiesce, "strays", lambda *_: None)
    result = next(result for seed in range(1000) if (result := workers.run(seed)).violation)
    assert result.violation is not None
    assert result.violation.startswith("I5")
    script = schedule.shrink(result, workers.run)
    assert len(script) <= len(result.made) / 2
    again = workers.run(script=choices.parse(choices.line(script)))
    assert again.violation is not None
    assert again.violation.startswith("I5")
    monkeypatch.undo()
    assert workers.run(script=script).violation is None
