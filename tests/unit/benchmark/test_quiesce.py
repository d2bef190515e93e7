"""Queries of earlier attempts are seen to have stopped, or not (F10, F14, I5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from longhaul.benchmark.adapters import Consumed, Query, Trial
from longhaul.benchmark.adapters.command import CommandAdapter
from longhaul.benchmark.checkpoint import Kind, Outcome, Record, Start, Trials, trial_id
from longhaul.benchmark.quiesce import SKEW, Word, quiesce, strays
from longhaul.fleet.keys import Attempt
from tests.unit.benchmark.doubles import CONFIG, EPOCH, Host, plan_for

BASE = "s3://b/trials/"


class Service:
    """An adapter whose queries run elsewhere; `looks` is what each look finds, or fails with."""

    remote = True

    def __init__(self, host: Host, *looks: Sequence[str] | Exception) -> None:
        self.host, self.looks = host, list(looks)
        self.asked: list[tuple[float, Sequence[str], datetime]] = []
        self.cancelled: list[str] = []

    def quiesce(self, prefixes: Sequence[str], since: datetime) -> Sequence[Query]:
        """Take the next look; after the last all is quiet."""
        self.asked.append((self.host.now - 1000, prefixes, since))
        look = self.looks.pop(0) if self.looks else ()
        if isinstance(look, Exception):
            raise look
        return [Query(id=id_.lstrip("-"), prefix=prefixes[0], running=not id_.startswith("-")) for id_ in look]

    def cancel(self, queries: Sequence[str]) -> None:
        """Remember."""
        self.cancelled += queries

    def demand(self, parameters: Mapping[str, Any]) -> int:
        """Of no interest here."""
        return 0

    def setup(self, trial: Trial) -> None:
        """Of no interest here."""

    def execute(self) -> None:
        """Of no interest here."""

    def consume(self) -> Consumed:
        """Of no interest here."""
        return Consumed()


def trial(number: int, outcome: Outcome | None = None, *queries: str, adapter: str = "remote") -> Start:
    """A trial, started that many minutes after noon."""
    name = trial_id("c", "1", Kind.REPETITION, number, generation=0, attempt=1)
    start = Start(
        run="r",
        job="j",
        trial=name,
        case="c",
        scale="1",
        kind=Kind.REPETITION,
        number=number,
        generation=0,
        attempt=1,
        adapter=adapter,
        prefix=f"{BASE}{name}/",
        started=EPOCH + timedelta(minutes=number),
    )
    if outcome is None:
        return start
    values = {name: getattr(start, name) for name in Start.__struct_fields__}
    return Record(**values, outcome=outcome, ended=EPOCH, queries=queries)


def left(*of: Start) -> Trials:
    """What earlier attempts left."""
    return Trials(
        starts={one.trial: one for one in of}, records={one.trial: one for one in of if isinstance(one, Record)}
    )


def stop(host: Host, adapter: object, *of: Start, seconds: float = 300) -> Word | None:
    """Quiesce on virtual time; all other adapters are `command`."""
    adapters: Callable[[str], Any] = lambda name: adapter if name == "remote" else CommandAdapter()  # noqa: E731
    return quiesce(left(*of), adapters, host.runtime(), seconds=seconds, say=host.log.append)


def test_two_clean_looks_30_s_apart_confirm() -> None:
    """F10: the first 30 s after the start, back to the oldest unfinished trial; successes left nothing."""
    host = Host()
    service = Service(host)
    trials = trial(1, Outcome.SUCCESS, "q-1"), trial(2, Outcome.FAILED, "q-2"), trial(3), trial(4, Outcome.UNSUPPORTED)
    assert stop(host, service, *trials) is None
    assert [at for at, _, _ in service.asked] == [30, 60]
    assert {since for _, _, since in service.asked} == {EPOCH + timedelta(minutes=2) - SKEW}
    assert {tuple(sorted(prefixes)) for _, prefixes, _ in service.asked} == {
        (f"{BASE}c.1.rep-2.g0-a1/", f"{BASE}c.1.rep-3.g0-a1/")
    }
    assert service.cancelled == ["q-2"]


def test_i5_a_query_that_starts_late_is_seen() -> None:
    """I5, S28: a clean look does not count if the next is not; those that ended since do not trouble."""
    host = Host()
    service = Service(host, [], ["late"], ["-late"], [])
    assert stop(host, service, trial(1)) is None
    assert [at for at, _, _ in service.asked] == [30, 60, 65, 95]


def test_a_look_that_fails_confirms_nothing() -> None:
    """I5: whatever it fails with."""
    host = Host()
    service = Service(host, [], RuntimeError("throttled"), [])
    assert stop(host, service, trial(1)) is None
    assert [at for at, _, _ in service.asked] == [30, 60, 65, 95]
    assert "throttled" in " ".join(host.log)


@pytest.mark.parametrize("seconds", [0, 59, 300])
def test_what_is_not_confirmed_in_time_is_named(seconds: float) -> None:
    """F14: ids as they were last seen, and every prefix."""
    host = Host()
    service = Service(host, *[["q-7"]] * 100)
    word = stop(host, service, trial(1, Outcome.INTERRUPTED, "q-1"), trial(2), seconds=seconds)
    assert word is not None
    assert word.queries == (("q-7",) if seconds >= 30 else ("q-1",))
    assert sorted(word.prefixes) == [f"{BASE}c.1.rep-{k}.g0-a1/" for k in (1, 2)]
    assert host.now - 1000 <= seconds


def test_a_cancel_that_fails_is_said() -> None:
    """The looks are what confirms."""
    host = Host()
    service = Service(host)

    def cancel(queries: Sequence[str]) -> None:
        raise RuntimeError("denied")

    service.cancel = cancel  # type: ignore[method-assign]
    assert stop(host, service, trial(1, Outcome.FAILED, "q-1")) is None
    assert "denied" in host.log[0]


def test_what_dies_with_its_process_is_confirmed_at_once() -> None:
    """F10: and so is nothing."""
    host = Host()
    assert stop(host, None, trial(1, adapter="command"), seconds=0) is None
    assert stop(host, Service(host), trial(1, Outcome.SUCCESS), seconds=0) is None
    assert host.now == 1000


def test_strays_are_looked_for_under_every_name_they_can_have() -> None:
    """I5, F20: trials that a former owner began later on, in any generation, and their repeats; never one's own."""
    plan = plan_for(CONFIG.replace('name = "b"', 'name = "b"\nadapter = "remote"'))
    host = Host()
    service = Service(host, ["q-1", "-q-2"])
    adapters: Callable[[str], Any] = lambda name: service if name == "remote" else CommandAdapter()  # noqa: E731
    look = strays(plan, Attempt(generation=3, number=4), BASE, 2, adapters)
    assert look is not None
    assert look(EPOCH) == ["q-1", "q-2"], "it ran beside the trial, whether or not it still does"
    assert look(EPOCH) == [], "it was seen, and stopped"
    assert service.asked[0][2] == EPOCH - SKEW, "clocks need not agree"
    prefixes = service.asked[0][1]
    case = plan.units[1].case.id

    def seen(kind: Kind, number: int, generation: int, attempt: int, again: int = 0) -> bool:
        name = trial_id(case, "default", kind, number, generation=generation, attempt=attempt, again=again)
        return any(f"{BASE}{name}/x.csv".startswith(prefix) for prefix in prefixes)

    assert seen(Kind.WARMUP, 0, 2, 1)
    assert seen(Kind.REPETITION, 3, 3, 3)
    assert seen(Kind.REPETITION, 3, 3, 3, again=2)
    assert not seen(Kind.REPETITION, 3, 3, 4)
    assert not seen(Kind.REPETITION, 3, 3, 30)
    assert not any("a-" in prefix.removeprefix(BASE)[:2] for prefix in prefixes), "of a case that is not remote"


def test_without_remote_adapters_nothing_is_looked_for() -> None:
    """A `command` costs no request."""
    assert strays(plan_for(), Attempt(generation=0, number=9), BASE, 0, lambda name: CommandAdapter()) is None
