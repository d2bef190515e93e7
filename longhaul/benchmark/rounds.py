"""Which trials are left, and in which order: pure functions (B5, F18)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec

from longhaul.benchmark.case import Unit
from longhaul.benchmark.checkpoint import Kind, Outcome, Record
from longhaul.benchmark.jobs import Plan


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that is to be run."""

    unit: Unit
    kind: Kind
    number: int


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt has to do."""

    tasks: tuple[Task, ...]
    unsupported: tuple[Unit, ...]  # to be recorded: no attempt has done it yet

    @property
    def nothing(self) -> bool:
        """Whether earlier attempts have done it all."""
        return not self.tasks and not self.unsupported


def left(plan: Plan, records: Mapping[str, Record]) -> Left:
    """F18: warm-ups of every case that lacks a repetition, then the repetitions without a success, in rounds.

    A repetition that failed is run again (case-B04); a case that has all its repetitions is left out with its
    warm-ups; one that was found unsupported is not tried again (S10).
    """
    measured = {record.repetition for record in records.values() if _counts(record)}
    refused = {(record.case, record.scale) for record in records.values() if record.outcome is Outcome.UNSUPPORTED}
    supported = [unit for unit in plan.units if unit.case.unsupported is None and unit.key not in refused]
    missing = {
        unit.key: [number for number in range(plan.job.repetitions) if (*unit.key, number) not in measured]
        for unit in supported
    }
    tasks = [
        Task(unit=unit, kind=kind, number=number)
        for kind, count in ((Kind.WARMUP, plan.job.warmups), (Kind.REPETITION, plan.job.repetitions))
        for number in range(count)
        for unit in shuffled(plan, kind, number)
        if (number in missing.get(unit.key, ()) if kind is Kind.REPETITION else missing.get(unit.key))
    ]
    return Left(
        tasks=tuple(tasks),
        unsupported=tuple(unit for unit in plan.units if unit.case.unsupported is not None and unit.key not in refused),
    )


def shuffled(plan: Plan, kind: Kind, number: int) -> Sequence[Unit]:
    """B5: the order of one round. It is the job's own, so an attempt that resumes keeps to it."""
    units = list(plan.units)
    random.Random(f"{plan.run.seed}/{plan.job.id}/{kind}/{number}").shuffle(units)  # noqa: S311  an order, no secret
    return units


def _counts(record: Record) -> bool:
    return record.kind is Kind.REPETITION and record.outcome is Outcome.SUCCESS
