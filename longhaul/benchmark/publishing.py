"""A job's report: read its attempts, merge them, write the summary and what it was made of (F20)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from longhaul.benchmark import attempts, report
from longhaul.benchmark.attempts import MERGED, FirstAttempt, FolderSource, Read, Source
from longhaul.benchmark.checkpoint import STORED, LocalFolder
from longhaul.benchmark.errors import ReportError
from longhaul.benchmark.jobs import Plan
from longhaul.benchmark.merge import Expected, merge
from longhaul.benchmark.summary import Summary, summarise
from longhaul.fleet.keys import Attempt
from longhaul.fleet.lease import Record
from longhaul.fleet.work import Merged

ALL = 2**31  # more generations than there can be


def publish(
    plan: Plan, source: Source, *, generations: range, attempt: Attempt, output: Path, key_prefix: str
) -> Merged:
    """Make the summary of a job that ends with this attempt, in the attempt's folder, and say what it was made of.

    `key_prefix` is what stands before names of the source in keys below the stack's location.
    """
    stored = output / STORED
    if attempt.number == 1 and stored.exists():
        source = FirstAttempt(source, attempt, stored.read_bytes())
    here = output.parents[1] if (output.parent.name, output.name) == _folders(attempt) else None
    read = attempts.read(source, generations=generations, until=attempt, here=here)
    summary = _planned(plan, read)
    files = write(summary, output)
    merged = Merged(
        records=tuple(Record(key=key_prefix + one.name, etag=one.etag) for one in read.records),
        files=files,
        failed=summary.failed,
    )
    LocalFolder(output).write(MERGED, msgspec.json.encode(merged))
    return merged


def of_plan(plan: Plan, folder: Path) -> Summary:
    """Summarise all attempts of a job in its folder on this host, against what was planned."""
    return _planned(plan, attempts.read(FolderSource(folder), generations=range(ALL)))


def write(summary: Summary, folder: Path) -> tuple[str, ...]:
    """Write every format; the names are returned, the summary proper first."""
    files = report.files(summary)
    for name, body in files.items():
        LocalFolder(folder).write(name, body)
    return tuple(files)


def summaries(folder: Path, generations: range | None = None) -> Sequence[Summary]:
    """Summarise what lies below a folder of this host: one attempt, a job, or several jobs one by one (S10)."""
    if (folder / "checkpoint").is_dir():
        return [_of_attempt(folder)]
    jobs = sorted({path.parents[1] for path in folder.glob("**/g*/attempt-*") if path.is_dir()})
    if not jobs:
        raise ReportError(f"{folder} holds no attempts: folders g<generation>/attempt-<n> below a job's")
    return [_of_job(job, generations) for job in jobs]


def _of_attempt(folder: Path) -> Summary:
    names = {f"{folder.parent.name}/{folder.name}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*")}
    read = attempts.read(FolderSource(folder.parents[1]), generations=range(ALL), counted=frozenset(names))
    return _summary(folder.parents[1].name, msgspec.structs.replace(read, late=()))


def _of_job(folder: Path, generations: range | None) -> Summary:
    """With a completed attempt's word of what it merged, that is the report, and the rest is late (S71)."""
    source = FolderSource(folder)
    names = [one.name for one in source.list()]
    last = attempts.latest(names)
    if generations is None:
        generations = range(last.generation if last else 0, ALL)
    elif not _generations(names) & set(generations):
        there = ", ".join(map(str, sorted(_generations(names)))) or "none"
        raise ReportError(f"{folder} has no attempts of those generations; it has: {there}")
    counted = _named_by_completion(folder, names, generations)
    if counted:
        generations = range(min(_generations(counted), default=generations.start), generations.stop)
    read = attempts.read(source, generations=generations, counted=counted)
    summary = _summary(folder.name, read)
    left_out = sorted(one for one in _generations(names) if one not in generations)
    if not left_out:
        return summary
    named = ", ".join(map(str, left_out))
    warning = f"generations left out, since a requeue starts afresh (--generations takes them in): {named}"
    return msgspec.structs.replace(summary, warnings=(*summary.warnings, warning))


def _planned(plan: Plan, read: Read) -> Summary:
    expected = [
        Expected(
            case=unit.case.id,
            scale=unit.scale,
            repetitions=plan.job.repetitions,
            unsupported=unit.case.unsupported,
        )
        for unit in plan.units
    ]
    return summarise(plan.run.id, plan.job.id, merge(read.trials, expected), read.hosts)


def _summary(job: str, read: Read) -> Summary:
    everything = [*read.trials.starts.values(), *read.trials.records.values()]
    run, job = (everything[0].run, everything[0].job) if everything else ("", job)
    return summarise(run, job, merge(read.trials), read.hosts, read.late)


def _named_by_completion(folder: Path, names: Sequence[str], generations: range) -> frozenset[str] | None:
    """What the last attempt that published was merged from; None if none of these generations did."""
    published = [name for name in names if name.endswith(f"/{MERGED}") and _place(name)[0] in generations]
    if not published:
        return None
    last = folder / max(published, key=_place)
    try:
        merged = msgspec.json.decode(last.read_bytes(), type=Merged)
    except msgspec.DecodeError as error:
        raise ReportError(f"{last} is not what a report leaves: {error}") from error
    return frozenset(attempts.name_in(record.key) for record in merged.records)


def _generations(names: Iterable[str]) -> set[int]:
    return {attempt.generation for attempt in map(attempts.attempt_of, names) if attempt}


def _place(name: str) -> tuple[int, int]:
    generation, attempt = name.split("/")[:2]
    return int(generation.removeprefix("g")), int(attempt.removeprefix("attempt-"))


def _folders(attempt: Attempt) -> tuple[str, str]:
    return f"g{attempt.generation}", f"attempt-{attempt.number}"
