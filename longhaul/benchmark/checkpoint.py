"""What is written before and after each trial: nothing measured is lost, nothing started is forgotten (F19)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from longhaul.benchmark.errors import ReportError

FOLDER, SUFFIX, START_SUFFIX = "checkpoint/", ".json", "-start.json"
ENVIRONMENT, EVENTS, TRIALS, LOG = "environment.json", "events.jsonl", "trials.jsonl", "log.txt"
STORED = ".stored.jsonl"  # name and ETag of each file of the attempt that S3 has: nobody need ask again. It stays here


class Kind(StrEnum):
    """What a trial is for. Warm-ups are never resumed and never aggregated (F18)."""

    WARMUP = "warmup"
    REPETITION = "rep"


class Outcome(StrEnum):
    """How a trial ended."""

    SUCCESS = "success"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # it was stopped; it says nothing about the case
    DISTURBED = "disturbed"  # a query of an earlier attempt ran beside it
    UNSUPPORTED = "unsupported"  # the case cannot be measured


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds by a monotonic clock, taken in the trial's process; None for what was not reached."""

    setup: float | None = None
    execute: float | None = None
    consume: float | None = None
    total: float | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Stored before a trial starts: its id, and where its queries write to."""

    schema: Literal[1] = 1
    run: str
    job: str
    trial: str
    case: str
    scale: str
    kind: Kind
    number: int  # which repetition or warm-up, from 0
    generation: int
    attempt: int
    again: int = 0  # times that it was repeated within the attempt, having been disturbed
    adapter: str
    prefix: str | None = None  # s3://…/ of this trial alone
    started: datetime  # by the host's wall clock; for people

    @property
    def repetition(self) -> tuple[str, str, int]:
        """What counts at most once (I7)."""
        return self.case, self.scale, self.number

    @property
    def order(self) -> tuple[int, int, int]:
        """Earlier trials of the same repetition have a lower one."""
        return self.generation, self.attempt, self.again


class Record(Start, frozen=True, kw_only=True):
    """Stored after a trial."""

    outcome: Outcome
    ended: datetime  # by the host's wall clock; for people
    seconds: float | None = None  # that the orchestrator spent on it, by a monotonic clock
    error: str | None = None
    queries: tuple[str, ...] = ()
    times: Times = Times()
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None
    rows: int | None = None
    checksum: str | None = None
    values: dict[str, Any] = {}  # what else the adapter said
    disturbed_by: tuple[str, ...] = ()  # queries


def trial_id(case: str, scale: str, kind: Kind, number: int, *, generation: int, attempt: int, again: int = 0) -> str:
    """Name a trial. No two trials of a run share a name: not across attempts, not within one."""
    name = f"{case}.{scale}.{kind.value}-{number}.g{generation}-a{attempt}"
    return f"{name}-{again}" if again else name


def start_name(trial: str) -> str:
    """Name of the start record in its attempt's folder."""
    return f"{FOLDER}{trial}{START_SUFFIX}"


def record_name(trial: str) -> str:
    """Name of the record in its attempt's folder."""
    return f"{FOLDER}{trial}{SUFFIX}"


def encode(record: Start) -> bytes:
    """The bytes of a start record or a record."""
    return msgspec.json.encode(record)


class Local(Protocol):
    """Where an attempt's files are written on the host, or in memory in simulations."""

    def write(self, name: str, body: bytes) -> None:
        """All of it or nothing, whenever the process or the host dies."""

    def append(self, name: str, line: bytes) -> None:
        """Add a line, which has no end of line of its own."""


class Remote(Protocol):
    """Where records outlive the host."""

    def put(self, name: str, body: bytes) -> str:
        """Store it; its ETag, without quotes. A `StoreError`: it is perhaps not stored. It ends within seconds."""


class LocalFolder:
    """A `Local` folder of this host."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, body: bytes) -> None:
        """Write beside it, then rename: a reader never sees half a record (S53)."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        with new.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)

    def append(self, name: str, line: bytes) -> None:
        """One write, so that lines of two writers never mix."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / name).open("ab", buffering=0) as file:
            file.write(line + b"\n")


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """What checkpoints say: starts and records by trial id. A start without a record is an incomplete trial."""

    starts: dict[str, Start]
    records: dict[str, Record]

    @classmethod
    def read(cls, objects: Iterable[tuple[str, bytes]], *, enough: bool = False) -> Trials:
        """From names, whatever stands before their last slash, and bodies; a `ReportError` names what is damaged.

        With `enough`, only a start that is damaged and has no record is an error: of all other trials it is known
        whether anything of them may run. A record without a start is of no trial, which begins with a start (F19).
        """
        starts, records = {}, {}
        damaged: dict[str, ReportError] = {}  # starts, by trial
        for name, body in objects:
            try:
                if name.endswith(START_SUFFIX):
                    start = _starts.decode(body)
                    starts[start.trial] = start
                else:
                    record = _records.decode(body)
                    records[record.trial] = record
            except msgspec.DecodeError as error:
                trouble = ReportError(f"{name} is no record of a trial: {error}")
                if not enough:
                    raise trouble from error
                if name.endswith(START_SUFFIX):
                    damaged[name.rpartition("/")[2].removesuffix(START_SUFFIX)] = trouble
        for trial, trouble in damaged.items():
            if trial not in records:
                raise trouble
        return cls(starts=starts, records=records)

    @classmethod
    def of_folders(cls, folders: Sequence[Path], *, enough: bool = False) -> Trials:
        """Of attempts whose folders lie here."""
        found = ((str(path), path.read_bytes()) for folder in folders for path in checkpoints(folder))
        return cls.read(found, enough=enough)

    def open(self) -> Mapping[str, Start]:
        """Trials whose queries may still run: those without a record, and those that did not end by themselves."""
        ended = {Outcome.SUCCESS, Outcome.UNSUPPORTED}
        everything = {**self.starts, **self.records}
        return {
            trial: start
            for trial, start in everything.items()
            if trial not in self.records or self.records[trial].outcome not in ended
        }


def checkpoints(folder: Path) -> Iterator[Path]:
    """Records below an attempt's folder, in order; not what a dying process left half-written."""
    for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}")):
        if not path.name.startswith("."):
            yield path


_starts, _records = msgspec.json.Decoder(Start), msgspec.json.Decoder(Record)
