"""What the attempts of one job come to: each repetition counts at most once (F20, I7). Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from longhaul.benchmark.checkpoint import Kind, Outcome, Record, Start, Trials
from longhaul.benchmark.errors import ReportError


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attempt ran, as far as its environment says."""

    host: str = ""
    instance_type: str = ""
    zone: str = ""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A case at a scale, and how many repetitions of it a job asks for."""

    case: str
    scale: str
    repetitions: int
    unsupported: str | None = None  # what the plan says of it, also if no attempt came to record it


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that did not count, and why."""

    trial: str
    number: int  # of the repetition
    reason: str


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case at one scale."""

    case: str
    scale: str
    counted: tuple[Record, ...]  # by repetition
    superseded: tuple[Note, ...]  # did not succeed, but their repetition did elsewhere
    failed: tuple[Note, ...]  # one for each repetition that was tried and never succeeded: its last trial
    missing: tuple[int, ...]  # repetitions that were never tried
    failed_warmups: int
    unsupported: str | None  # why it cannot be measured; then nothing is missing or failed

    @property
    def without_success(self) -> int:
        """Repetitions that the job asked for and did not get."""
        return len(self.failed) + len(self.missing)


def merge(trials: Trials, expected: Sequence[Expected] | None = None) -> Sequence[Outcomes]:
    """Count every repetition once: its lowest successful attempt. Any split over attempts gives the same (I7).

    Without `expected`, what was tried is what was asked for. Records of several jobs raise `ReportError` (S10).
    """
    everything: dict[str, Start] = {**trials.starts, **trials.records}
    jobs = sorted({(one.run, one.job) for one in everything.values()})
    if len(jobs) > 1:
        named = ", ".join(f"{job} of run {run}" for run, job in jobs)
        raise ReportError(f"these records are of several jobs, which have nothing to do with each other: {named}")
    by_unit: dict[tuple[str, str], list[Start]] = defaultdict(list)
    for one in sorted(everything.values(), key=lambda one: (one.order, one.trial)):
        by_unit[one.case, one.scale].append(one)
    if expected is None:
        expected = [
            Expected(case=case, scale=scale, repetitions=1 + max(_numbers(of_unit), default=-1))
            for (case, scale), of_unit in sorted(by_unit.items())
        ]
    return [_outcomes(unit, by_unit.get((unit.case, unit.scale), [])) for unit in expected]


def _outcomes(unit: Expected, trials: Sequence[Start]) -> Outcomes:
    by_number: dict[int, list[Start]] = defaultdict(list)
    for one in trials:
        if one.kind is Kind.REPETITION and one.number < unit.repetitions:
            by_number[one.number].append(one)
    counted, superseded, failed = [], [], []
    for number, tries in sorted(by_number.items()):
        successes = [one for one in tries if _outcome(one) is Outcome.SUCCESS]
        notes = [
            Note(trial=one.trial, number=number, reason=reason_of(one))
            for one in tries
            if _outcome(one) is not Outcome.SUCCESS
        ]
        if successes:
            assert isinstance(successes[0], Record)  # noqa: S101  starts have no outcome
            counted.append(successes[0])
            superseded += notes
        else:
            failed.append(notes[-1])
    unsupported = next((reason_of(one) for one in trials if _outcome(one) is Outcome.UNSUPPORTED), unit.unsupported)
    refused = unsupported is not None
    return Outcomes(
        case=unit.case,
        scale=unit.scale,
        counted=tuple(counted),
        superseded=tuple(superseded),
        failed=() if refused else tuple(failed),
        missing=() if refused else tuple(k for k in range(unit.repetitions) if k not in by_number),
        failed_warmups=sum(one.kind is Kind.WARMUP and _outcome(one) is Outcome.FAILED for one in trials),
        unsupported=unsupported,
    )


def reason_of(trial: Start) -> str:
    """Why a trial did not succeed, in one line."""
    if not isinstance(trial, Record):
        return "incomplete"
    error = " ".join((trial.error or "").split())
    if trial.outcome is Outcome.DISTURBED:
        return f"disturbed by {', '.join(trial.disturbed_by)}"
    if trial.outcome is Outcome.INTERRUPTED:
        return "interrupted"
    return error or trial.outcome.value


def hosts_of(records: Sequence[Record], hosts: Mapping[tuple[int, int], Host]) -> Sequence[Host]:
    """Where records were measured, each place once; by generation and attempt."""
    return sorted(
        {hosts.get((record.generation, record.attempt), Host()) for record in records},
        key=lambda host: (host.host, host.instance_type),
    )


def _outcome(trial: Start) -> Outcome | None:
    return trial.outcome if isinstance(trial, Record) else None


def _numbers(trials: Sequence[Start]) -> Sequence[int]:
    return [one.number for one in trials if one.kind is Kind.REPETITION]
