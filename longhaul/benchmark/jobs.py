"""From a configuration to the jobs of a queue, and back from the documents of a queue to what one job measures (B6)."""

from __future__ import annotations

import fnmatch
import hashlib
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from longhaul.benchmark.case import Case, Unit, scale_name
from longhaul.benchmark.errors import ConfigurationError

CONFIG, JOBS, MANIFEST = "config.toml", "jobs.json", "manifest.json"
LONGEST_SECONDS = 7 * 24 * 3600.0  # of a trial: some number that no wait of the system refuses
_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section `[run]`: what holds for all cases unless they say otherwise."""

    id: str
    region: str | None = None
    seed: int = 0
    warmups: int = 1
    repetitions: int = 10
    scales: tuple[str | int, ...] = ("default",)
    timeout_seconds: float = 600.0  # of one trial


class JobTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section `[[job]]`: cases that are to be measured side by side."""

    id: str
    cases: tuple[str, ...] = ("*",)  # names or ids, with * and ?
    scales: tuple[str | int, ...] = ()  # none: all
    warmups: int | None = None
    repetitions: int | None = None
    api_weight: int | None = None
    weight: float | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file `config.toml`."""

    run: Run
    case: tuple[Case, ...]
    job: tuple[JobTable, ...] = ()  # none: one for each case at each scale

    def units(self) -> Sequence[Unit]:
        """Every case at every scale that it is to be measured at."""
        return [
            Unit(case=case, scale=scale_name(scale)) for case in self.case for scale in case.scales or self.run.scales
        ]


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """Which cases a job measures, and at which scales: data, never a command line (B6)."""

    ids: tuple[str, ...]
    scales: tuple[str, ...]

    def picks(self, unit: Unit) -> bool:
        """Whether it is meant."""
        return unit.case.id in self.ids and unit.scale in self.scales


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `jobs.json`. The fleet reads its id and weights only."""

    id: str
    cases: Selector
    warmups: int
    repetitions: int
    api_weight: int  # API slots that it holds while it runs
    weight: float  # how long it lasts beside the others


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The file `manifest.json`: what attempts must agree in to be merged."""

    schema: int = 1
    run: str
    versions: dict[str, str]
    sha256: dict[str, str]  # of the other documents


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue consists of, beside `queue.json`."""

    config: Config
    jobs: tuple[Job, ...]
    manifest: Manifest
    files: dict[str, bytes]  # by name, as they are to be published


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One job, with all that its orchestrator needs to know of the queue."""

    run: Run
    job: Job
    units: tuple[Unit, ...]

    def timeout_seconds(self, case: Case) -> float:
        """How long one trial of a case may take."""
        return case.timeout_seconds or self.run.timeout_seconds


Demand = Callable[[Case], int]  # API slots that a trial of the case needs, by its adapter


def plan(text: bytes, *, demand: Demand, versions: Mapping[str, str], name: str = CONFIG) -> Documents:
    """Expand a configuration: cases at scales become jobs. `ConfigurationError` says what is wrong with it.

    `name` is what its author calls the file.
    """
    config = read_config(text, name)
    units = config.units()
    doubled = _doubled([unit.key for unit in units])
    if doubled:
        raise ConfigurationError(f"two cases are the same: {doubled[0]} at scale {doubled[1]}")
    tables = config.job or _one_each(units)
    jobs = tuple(_job(table, units, config.run, demand) for table in tables)
    if _doubled([job.id for job in jobs]):
        raise ConfigurationError(f"two jobs have the id {_doubled([job.id for job in jobs])}")
    doubled = _doubled([unit.key for job in jobs for unit in units if job.cases.picks(unit)])
    if doubled:
        raise ConfigurationError(
            f"two jobs measure case {doubled[0]} at scale {doubled[1]}: their trials would collide"
        )
    files = {CONFIG: text, JOBS: msgspec.json.format(msgspec.json.encode(jobs), indent=2)}
    manifest = Manifest(
        run=config.run.id,
        versions=dict(versions),
        sha256={name: hashlib.sha256(body).hexdigest() for name, body in files.items()},
    )
    files[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    return Documents(config=config, jobs=jobs, manifest=manifest, files=files)


def read_config(text: bytes, name: str = CONFIG) -> Config:
    """Parse and check a configuration."""
    try:
        config = msgspec.convert(tomllib.loads(text.decode()), Config)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{name}: {error}") from error
    run = config.run
    _check_name("run.id", run.id)
    if not config.case:
        raise ConfigurationError(f"{name}: there is no [[case]]")
    for what, number in (
        ("run.timeout_seconds", run.timeout_seconds),
        *((f"{case.name}: timeout_seconds", case.timeout_seconds) for case in config.case),
    ):
        if number is not None and not 0 < number <= LONGEST_SECONDS:
            raise ConfigurationError(f"{name}: {what} is {number}, it must be more than 0, a week at most")
    weighed = [(case.name, case.weight, case.api_weight) for case in config.case]
    for named, weight, api_weight in (*weighed, *((job.id, job.weight, job.api_weight) for job in config.job)):
        if weight is not None and not 0 <= weight < math.inf:
            raise ConfigurationError(f"{name}: {named}: weight is {weight}, it must be a number, 0 or more")
        if api_weight is not None and api_weight < 0:
            raise ConfigurationError(f"{name}: {named}: api_weight is {api_weight}, it must be 0 or more")
    return config


def read_plan(folder: Path, job_id: str) -> Plan:
    """Read a job from the documents of a queue, which were published together: their hashes must fit."""
    try:
        bodies = {name: (folder / name).read_bytes() for name in (CONFIG, JOBS, MANIFEST)}
        manifest = msgspec.json.decode(bodies[MANIFEST], type=Manifest)
        jobs = msgspec.json.decode(bodies[JOBS], type=tuple[Job, ...])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"the documents of the queue in {folder} cannot be read: {error}") from error
    for name in (CONFIG, JOBS):
        if manifest.sha256.get(name) != hashlib.sha256(bodies[name]).hexdigest():
            raise ConfigurationError(f"{folder / name} is not the file that {MANIFEST} names")
    return plan_of(read_config(bodies[CONFIG]), jobs, job_id)


def plan_of(config: Config, jobs: Sequence[Job], job_id: str) -> Plan:
    """Pick one job."""
    found = [job for job in jobs if job.id == job_id]
    if not found:
        raise ConfigurationError(f"there is no job {job_id!r}: {', '.join(job.id for job in jobs[:10])}")
    units = tuple(unit for unit in config.units() if found[0].cases.picks(unit))
    return Plan(run=config.run, job=found[0], units=units)


def manifest_sha256(folder: Path) -> str:
    """Return the hash that stands for all documents of a queue."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def _one_each(units: Sequence[Unit]) -> tuple[JobTable, ...]:
    return tuple(
        JobTable(id=f"{unit.case.id}.{unit.scale}", cases=(unit.case.id,), scales=(unit.scale,)) for unit in units
    )


def _job(table: JobTable, units: Sequence[Unit], run: Run, demand: Demand) -> Job:
    _check_name("job.id", table.id)
    scales = tuple(scale_name(scale) for scale in table.scales)
    picked = [
        unit
        for unit in units
        if (not scales or unit.scale in scales)
        and any(
            fnmatch.fnmatchcase(name, pattern) for pattern in table.cases for name in (unit.case.name, unit.case.id)
        )
    ]
    if not picked:
        raise ConfigurationError(f"job {table.id}: no case fits {', '.join(table.cases)}")
    selector = Selector(
        ids=tuple(dict.fromkeys(unit.case.id for unit in picked)),
        scales=tuple(dict.fromkeys(unit.scale for unit in picked)),
    )
    measured = [unit for unit in units if selector.picks(unit)]
    warmups = run.warmups if table.warmups is None else table.warmups
    repetitions = run.repetitions if table.repetitions is None else table.repetitions
    if warmups < 0 or repetitions < 1:
        raise ConfigurationError(
            f"job {table.id}: {repetitions} repetitions and {warmups} warm-ups; at least 1 and 0 are wanted"
        )
    asked = [demand(unit.case) for unit in measured]  # of all, which also tells cases that could only fail
    said = [unit.case.api_weight for unit in measured]
    demands = [needs if weight is None else weight for needs, weight in zip(asked, said, strict=True)]
    return Job(
        id=table.id,
        cases=selector,
        warmups=warmups,
        repetitions=repetitions,
        api_weight=max(demands) if table.api_weight is None else table.api_weight,
        weight=(warmups + repetitions) * sum(unit.case.weight for unit in measured)
        if table.weight is None
        else table.weight,
    )


def _doubled(items: Sequence[_T]) -> _T | None:
    seen: set[_T] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{what} is {name!r}: 1 to 128 letters, digits and ._- only, no . or _ or - first")
