"""From outcomes to what is shown of them: estimates, notes and warnings (B7, F20). Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from longhaul.benchmark.checkpoint import Record
from longhaul.benchmark.estimates import FEW, Estimate, estimate
from longhaul.benchmark.merge import Host, Note, Outcomes, hosts_of

_T = TypeVar("_T")
PHASES = ("setup", "execute", "consume")


class CaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case at one scale. Times in seconds."""

    case: str
    scale: str
    n: int  # repetitions that count
    total: Estimate | None
    phases: dict[str, float | None]  # medians
    cpu_seconds: float | None  # median
    peak_rss_bytes: int | None  # the highest
    rows: tuple[int, ...]  # every number of rows that was seen; more than one is odd
    checksums: tuple[str, ...]
    failed: int
    missing: int
    superseded: int
    unsupported: str | None
    hosts: tuple[Host, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: tuple[float, ...]  # each counted repetition's total, by repetition


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose records were merged."""

    generation: int
    attempt: int
    host: Host


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of one job."""

    schema: int = 1
    run: str
    job: str
    cases: tuple[CaseSummary, ...]
    attempts: tuple[Attempted, ...]
    successful: int
    failed: int  # repetitions without a success
    superseded: int
    late: tuple[str, ...]  # objects that landed after the job was done; they count for nothing
    warnings: tuple[str, ...]


def summarise(
    run: str,
    job: str,
    outcomes: Sequence[Outcomes],
    hosts: Mapping[tuple[int, int], Host],
    late: Sequence[str] = (),
) -> Summary:
    """Make the summary of one job. `hosts` is by generation and attempt."""
    cases = tuple(_case(one, hosts) for one in outcomes)
    attempts = tuple(
        Attempted(generation=generation, attempt=attempt, host=host)
        for (generation, attempt), host in sorted(hosts.items())
    )
    return Summary(
        run=run,
        job=job,
        cases=cases,
        attempts=attempts,
        successful=sum(case.n for case in cases),
        failed=sum(one.without_success for one in outcomes),
        superseded=sum(case.superseded for case in cases),
        late=tuple(late),
        warnings=tuple(_job_warnings(cases, late)),
    )


def _case(one: Outcomes, hosts: Mapping[tuple[int, int], Host]) -> CaseSummary:
    records = one.counted
    seconds = _present([record.times.total for record in records])
    total = estimate(seconds, f"{one.case}/{one.scale}")
    places = tuple(hosts_of(records, hosts))
    cpu = _present([record.cpu_seconds for record in records])
    return CaseSummary(
        case=one.case,
        scale=one.scale,
        n=len(records),
        total=total,
        phases={phase: _median(records, phase) for phase in PHASES},
        cpu_seconds=statistics.median(cpu) if cpu else None,
        peak_rss_bytes=max(_present([record.peak_rss_bytes for record in records]), default=None),
        rows=tuple(sorted(set(_present([record.rows for record in records])))),
        checksums=tuple(sorted(set(_present([record.checksum for record in records])))),
        failed=len(one.failed),
        missing=len(one.missing),
        superseded=len(one.superseded),
        unsupported=one.unsupported,
        hosts=places,
        notes=tuple(_notes(one)),
        warnings=tuple(_warnings(one, total, places)),
        seconds=tuple(seconds),
    )


def _notes(one: Outcomes) -> list[str]:
    said = [*_said("Failed", one.failed), *_said("Superseded", one.superseded)]
    if one.missing:
        said.append(f"Missing: never run ({_repetitions(one.missing)})")
    if one.unsupported is not None:
        said.append(f"Unsupported: {one.unsupported}")
    if one.failed_warmups:
        said.append(f"Warm-ups that failed: {one.failed_warmups}")
    return said


def _said(what: str, notes: Sequence[Note]) -> list[str]:
    """One line for each reason, with the repetitions that it met (S17)."""
    reasons = dict.fromkeys(note.reason for note in notes)
    return [
        f"{what}: {reason} ({_repetitions([note.number for note in notes if note.reason == reason])})"
        for reason in reasons
    ]


def _repetitions(numbers: Sequence[int]) -> str:
    return f"repetition{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def _warnings(one: Outcomes, total: Estimate | None, hosts: Sequence[Host]) -> list[str]:
    warnings = []
    if one.unsupported is None and len(one.counted) < FEW:
        warnings.append(f"only {len(one.counted)} of {FEW} repetitions that an estimate takes")
    if total is not None and total.unstable:
        warnings.append("unstable: half of the repetitions are more than 10 % off the median")
    for what, names in (
        ("hosts", {host.host for host in hosts}),
        ("instance types", {host.instance_type for host in hosts}),
    ):
        if len(names) > 1:
            warnings.append(f"spans {what}: {', '.join(sorted(name or 'unknown' for name in names))}")
    return warnings


def _job_warnings(cases: Sequence[CaseSummary], late: Sequence[str]) -> list[str]:
    warnings = []
    types = {host.instance_type for case in cases for host in case.hosts}
    if len(types) > 1:
        warnings.append("measured on several instance types: compare no case with another")
    for case in cases:
        for what, seen in (("numbers of rows", case.rows), ("checksums", case.checksums)):
            if len(seen) > 1:
                warnings.append(f"{case.case} at {case.scale}: several {what}: {', '.join(map(str, seen))}")
    if late:
        warnings.append(f"objects that landed after the job was done count for nothing: {len(late)}")
    return warnings


def _median(records: Sequence[Record], phase: str) -> float | None:
    values = _present([getattr(record.times, phase) for record in records])
    return statistics.median(values) if values else None


def _present(values: Sequence[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]
