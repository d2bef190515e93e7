"""What really happened to jobs and trials, and what must not: I1, I3, I5, I7, I9, E2 and F17, as it happens."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from longhaul.benchmark.checkpoint import Kind, Start
from longhaul.fleet.keys import Place
from longhaul.fleet.lease import BARREN_LIMIT, Lease, Outcome, State
from tests.simulation.server import Server
from tests.simulation.workers.instance import Instance
from tests.simulation.workers.queries import Queries
from tests.simulation.world import ViolationError

_RECORD = re.compile(r"\.(rep-\d+)\.g\d+-a(\d+)(?:-\d+)?\.json$")


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a job in the simulation."""

    trials: tuple[str, ...]  # that count, one for each repetition
    records: tuple[tuple[str, str], ...]  # that they were merged from: key and ETag
    failed: int


@dataclass
class Window:
    """When a trial ran, by nobody's clock."""

    trial: Start
    began: float
    ended: float = float("inf")


@dataclass
class Ledger:
    """Of one schedule."""

    server: Server
    queries: Queries
    repetitions: int
    windows: dict[str, Window] = field(default_factory=dict)
    starts: Counter[tuple[str, int, int]] = field(default_factory=Counter)  # by job, generation, repetition
    disturbed: int = 0
    interruptions: Counter[str] = field(default_factory=Counter)  # attempts that did not complete, by job

    def trial_begins(self, instance: Instance, place: Place, trial: Start) -> None:
        """The deadline was looked at this very moment, so the claim is its owner's (I1, S65)."""
        claim = self.server.lease(self.server.keys.claim(place.job))
        mine = (instance.id, place.attempt.number, place.attempt.generation, State.RUNNING)
        if claim is None or (claim.owner.instance, claim.attempt, claim.generation, claim.state) != mine:
            raise ViolationError(f"I1 {instance.name} measures {trial.trial} without its claim")
        if trial.trial in self.windows:
            raise ViolationError(f"I9 {instance.name} writes where another trial did: {trial.trial}")
        self.windows[trial.trial] = Window(trial, self.server.world.now)
        if trial.kind is Kind.REPETITION and not trial.again:
            self.starts[trial.job, trial.generation, trial.number] += 1

    def trial_ends(self, trial: Start, began: float, ended: float) -> None:
        """It is over, however."""
        self.windows[trial.trial] = Window(trial, began, ended)

    def done(self, key: str, lease: Lease) -> None:
        """A claim becomes done: its summary says what it was merged from, and each repetition counts once."""
        end = lease.completion
        assert end is not None
        if end.outcome is Outcome.ABANDONED:
            self._check_barren(key, lease)
        if end.outcome is Outcome.ABANDONED or end.summary is None:
            return
        summary = msgspec.json.decode(self.server.objects[end.summary].body, type=Counted)
        if summary.records != tuple((one.key, one.etag) for one in end.records):
            raise ViolationError(f"I3 {key}: the summary was merged from other records than its claim names")
        windows = [self.windows[trial] for trial in summary.trials]
        numbers = [one.trial.number for one in windows]
        if len(set(numbers)) != len(numbers):
            raise ViolationError(f"I7 {key}: a repetition counts twice: {summary.trials}")
        if end.outcome is Outcome.SUCCESS and sorted(numbers) != list(range(self.repetitions)):
            raise ViolationError(f"I7 {key}: a success with repetitions {sorted(numbers)}")
        for one in windows:
            if one.ended == float("inf"):
                raise ViolationError(f"I7 {key}: {one.trial.trial} counts and never ended")
            beside = self.queries.beside(one.trial, one.began, one.ended)
            if beside is not None:
                raise ViolationError(f"I5 {key}: {one.trial.trial} counts, and {beside.id} ran beside it")
        self._wasted(key, lease)

    def _check_barren(self, key: str, lease: Lease) -> None:
        """F17: each of the four attempts before recorded nothing, in its time, that earlier ones had not recorded."""
        job = key.rsplit("/", 1)[1]
        first: dict[str, int] = {}  # attempt that recorded a repetition, by repetition
        for name, there in self.server.objects.items():
            found = _RECORD.search(name)
            if found is None or f"/{job}/g{lease.generation}/" not in name:
                continue
            attempt = int(found[2])
            if there.written < self.server.begun.get((key, attempt + 1), ("", float("inf")))[1]:
                first[found[1]] = min(attempt, first.get(found[1], attempt))
        if any(attempt >= lease.attempt - BARREN_LIMIT for attempt in first.values()):
            raise ViolationError(f"F17 {key}: abandoned by attempt {lease.attempt}, and measured by {first}")

    def _wasted(self, key: str, lease: Lease) -> None:
        """E2: every attempt that did not complete may have cost one repetition. Those are fewer than attempts."""
        job = key.rsplit("/", 1)[1]
        generation = lease.generation
        begun = sum(count for (name, where, _), count in self.starts.items() if (name, where) == (job, generation))
        wasted = begun - self.repetitions
        if wasted > lease.attempt - 1:
            raise ViolationError(f"E2 {key}: {begun} repetitions begun in {lease.attempt} attempts")
