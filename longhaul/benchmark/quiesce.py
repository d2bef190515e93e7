"""Sees that the queries of earlier attempts have stopped, with whatever adapter they were started (F10, F14, I5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from longhaul.benchmark.adapters import Adapter, Query
from longhaul.benchmark.checkpoint import Kind, Record, Start, Trials, trial_id
from longhaul.benchmark.jobs import Plan
from longhaul.fleet.keys import Attempt
from longhaul.fleet.runtime import Runtime

APART_SECONDS = 30.0  # between two clean looks, and before the first: a query may start late
AGAIN_SECONDS = 5.0  # after a look that was not clean, or failed
SKEW = timedelta(minutes=15)  # that the wall clocks of two hosts and of a service may differ by

Adapters = Callable[[str], Adapter]
Say = Callable[[str], None]


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be confirmed: queries that were seen to run, and prefixes that any may write to."""

    queries: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _Check:
    """What is to be confirmed of one adapter."""

    adapter: Adapter
    prefixes: tuple[str, ...]
    known: tuple[str, ...]  # ids that records name
    since: datetime  # when the oldest of these trials started
    next_look: float  # by the runtime's clock
    say: Say
    clean: bool = False  # the last look was
    confirmed: bool = False
    running: tuple[str, ...] = field(default=())  # as the last look saw them

    def cancel(self) -> None:
        """Stop what is known by name."""
        if self.known:
            try:
                self.adapter.cancel(self.known)
            except Exception as error:  # noqa: BLE001  an adapter's; the looks are what confirms
                self.say(f"could not cancel {', '.join(self.known)}: {type(error).__name__}: {error}")

    def look(self, now: Callable[[], float]) -> None:
        """Look once; two clean looks in a row, far enough apart, confirm. A look that fails says nothing."""
        try:
            found = self.adapter.quiesce(self.prefixes, self.since - SKEW)
        except Exception as error:  # noqa: BLE001  an adapter's; what it did not see is not confirmed
            self.say(f"could not look for queries: {type(error).__name__}: {error}")
            clean = False
        else:
            self.running = tuple(query.id for query in found if query.running)
            clean = not self.running
        self.confirmed = clean and self.clean
        self.clean = clean
        self.next_look = now() + (APART_SECONDS if clean else AGAIN_SECONDS)


def quiesce(trials: Trials, adapters: Adapters, runtime: Runtime, *, seconds: float, say: Say) -> Word | None:
    """Stop what trials that did not end by themselves may have left; None once it is confirmed, within that time.

    Confirmed is an adapter after two clean looks 30 s apart, the first 30 s after the start. Adapters whose work dies
    with its processes are confirmed at once.
    """
    began = runtime.clock()
    until = began + seconds
    checks = _checks(trials, adapters, began + APART_SECONDS, say)
    for check in checks:
        check.cancel()
    while pending := [check for check in checks if not check.confirmed]:
        due = min(pending, key=lambda check: check.next_look)
        if max(due.next_look, runtime.clock()) > until:
            return Word(
                queries=tuple(dict.fromkeys(query for check in pending for query in check.running or check.known)),
                prefixes=tuple(prefix for check in pending for prefix in check.prefixes),
            )
        runtime.sleep(max(0.0, due.next_look - runtime.clock()))
        due.look(runtime.clock)
    return None


def strays(
    plan: Plan, attempt: Attempt, trials: str, earliest_generation: int, adapters: Adapters
) -> Callable[[datetime], Sequence[str]] | None:
    """What tells an orchestrator of queries of earlier attempts that ran since its last look, and stops them (F20, I5).

    A former owner that goes on begins trials that this host never heard of; but how they are named is known. Clocks of
    hosts and services need not agree: what counts is that a query was not seen before, and each look stops what it
    sees. None if no adapter of the job leaves queries behind.
    """
    by_adapter: dict[str, list[str]] = defaultdict(list)
    for unit in plan.units:
        for kind, count in ((Kind.WARMUP, plan.job.warmups), (Kind.REPETITION, plan.job.repetitions)):
            by_adapter[unit.case.adapter] += [
                trials + trial_id(*unit.key, kind, number, generation=generation, attempt=earlier) + end
                for number in range(count)
                for generation in range(earliest_generation, attempt.generation + 1)
                for earlier in range(1, attempt.number)
                for end in ("/", "-")  # a trial, and its repeats
            ]
    remote = [(adapter, prefixes) for name, prefixes in by_adapter.items() if (adapter := adapters(name)).remote]
    if not remote:
        return None

    seen: set[str] = set()

    def look(since: datetime) -> Sequence[str]:
        found: list[Query] = []
        for adapter, prefixes in remote:
            found += adapter.quiesce(prefixes, since - SKEW)
        new = [query.id for query in found if query.id not in seen]
        seen.update(new)
        return new

    return look


def _checks(trials: Trials, adapters: Adapters, first_look: float, say: Say) -> Sequence[_Check]:
    by_adapter: dict[str, list[Start]] = defaultdict(list)
    for trial in trials.open().values():
        by_adapter[trial.adapter].append(trial)
    return [
        _Check(
            adapter=adapter,
            prefixes=tuple(one.prefix for one in left if one.prefix is not None),
            known=tuple(query for one in left if isinstance(one, Record) for query in one.queries),
            since=min(one.started for one in left),
            next_look=first_look,
            say=say,
        )
        for name, left in by_adapter.items()
        if (adapter := adapters(name)).remote
    ]
