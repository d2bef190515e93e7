"""A bounded number of schedules, and proof that the simulator sees, shrinks and replays what goes wrong.

`make simulate SEEDS=100000` runs more of them, `make mutants` takes every guard out.
"""

from __future__ import annotations

import gc

import greenlet
import pytest

from longhaul.fleet import lease as rules
from longhaul.fleet.lease import Terms
from tests.simulation import choices, schedule
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.mutant import Mutant

SEEDS = 400


def test_no_schedule_breaks_an_invariant() -> None:
    """I1, I2, I3, I4, I8, L1, L3, L4 and E1, over the first seeds."""
    failures = {seed: result.violation for seed in range(SEEDS) if (result := schedule.run(seed)).violation}
    assert not failures


def test_a_seed_is_always_the_same_schedule() -> None:
    """Whatever fails can be looked at again, from its seed and from its line."""
    seed = next(seed for seed in range(100) if len(schedule.run(seed).made) > 10)
    traces: list[list[str]] = [[], [], []]
    first = schedule.run(seed, trace=traces[0].append)
    schedule.run(seed, trace=traces[1].append)
    again = schedule.run(script=choices.parse(choices.line(first.made)), trace=traces[2].append)
    assert traces[0] == traces[1] == traces[2]
    assert again.made == first.made


def test_with_dull_choices_nothing_is_lost() -> None:
    """The schedule of all zeros: every job in its first attempt."""
    trace: list[str] = []
    assert schedule.run(script={}, trace=trace.append).violation is None
    assert not any("attempt-2" in line for line in trace)


def test_what_fails_shrinks_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a deadline beyond the lease: found, shrunk to a few choices, and there again from its line."""
    monkeypatch.setattr(Terms, "deadline", lambda self, first_sent: first_sent + 2 * self.lease_seconds)
    result = next(result for seed in range(500) if (result := schedule.run(seed)).violation)
    assert result.violation is not None
    assert result.violation.startswith("I1")
    script = schedule.shrink(result)
    assert len(script) <= min(8, len(result.made))
    trace: list[str] = []
    again = schedule.run(script=choices.parse(choices.line(script)), trace=trace.append)
    assert again.violation is not None
    assert again.violation.startswith("I1")
    assert trace[-1].endswith(again.violation)
    monkeypatch.undo()
    assert schedule.run(script=script).violation is None


def test_an_error_of_a_worker_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """L4: whatever it is."""

    def broken(*arguments: object) -> bool:
        raise KeyError("broken")

    monkeypatch.setattr(rules, "takeable", broken)
    violation = schedule.run(0).violation
    assert violation is not None
    assert violation.startswith("L4")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_every_mutant_is_still_one(mutant: Mutant) -> None:
    """The place that it changes exists once, and what it makes of the module compiles."""
    compile(mutant.text(), str(mutant.source), "exec")


def test_names_of_mutants_are_unique() -> None:
    """They are hunted by name."""
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_a_shrunk_script_is_minimal() -> None:
    """Of choices that do not matter none is left, and those that do are as low as can be."""

    def fails(script: dict[int, int]) -> dict[int, int] | None:
        return dict(script) if script.get(3, 0) >= 2 and script.get(40) else None

    script = dict.fromkeys(range(60), 4)
    assert choices.shrink(script, fails) == {3: 2, 40: 1}


def test_a_schedule_leaves_nothing_behind() -> None:
    """Whoever still waits at its end is ended: a million schedules fit into memory."""
    schedule.run(0)
    gc.collect()
    before = standing()
    for seed in range(20):
        schedule.run(seed)
    gc.collect()
    assert standing() == before


def standing() -> int:
    """How many greenlets there are."""
    return sum(isinstance(one, greenlet.greenlet) for one in gc.get_objects())
