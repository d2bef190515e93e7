"""What a worker has around it beside leases and machine: its queue, records of its host, and a memory on disk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from longhaul.fleet.keys import Place
from longhaul.fleet.results import Results
from longhaul.fleet.taking import Job
from longhaul.fleet.work import Unconfirmed, Work


@dataclass(frozen=True, kw_only=True)
class Published:
    """A queue that is published, with all that its documents decide."""

    jobs: tuple[Job, ...]
    api_slots: int  # of queue.json; workers have no say in it (F6)
    work: Work  # the commands, knowing the queue's run
    results: Results  # knowing manifest and version, so that aliens are refused (F10)


class Queue(Protocol):
    """The queue's documents."""

    def published(self) -> Published | None:
        """None as long as there is no queue.json; the other documents are in the host's folder once it is there.

        Any `FleetError` may pass: the worker asks again.
        """

    def paused(self) -> bool:
        """Whether nothing is to be taken now; an `UnansweredError` passes."""


class Doing(StrEnum):
    """What a worker was doing when it wrote its host's record."""

    WAITING = "waiting"  # for the queue
    IDLE = "idle"
    RUNNING = "running"
    QUARANTINED = "quarantined"
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True)
class HostRecord:
    """What a worker says of itself; whoever stores it adds what the host is."""

    worker: str  # uuid of the process
    doing: Doing
    started: datetime  # by the host's wall clock, to be read by people; how old a record is its LastModified says
    job: str | None = None
    quarantine: Unconfirmed | None = None
    why: str | None = None  # it ended, or measures nothing


class Hosts(Protocol):
    """`hosts/<instance id>.json` of the queue."""

    def write(self, record: HostRecord) -> None:
        """Store the record, with identity and worker version. Any `FleetError` may pass.

        Called while nothing is measured only (I6): while idle, and at an attempt's start and end.
        """


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Queries of this host, or that it was to stop, which may still run (F14)."""

    places: tuple[Place, ...]  # attempts whose queries are to be stopped; their folders are on this host
    unconfirmed: Unconfirmed


class Journal(Protocol):
    """What outlives the worker's process, on the host's disk. An OSError may pass."""

    def quarantine(self) -> Quarantine | None:
        """What an earlier worker left to be settled: also a run that it crashed in."""

    def write(self, quarantine: Quarantine | None) -> None:
        """Keep it, so that it is there even if the host loses its power now; None clears it."""

    def check(self) -> None:
        """See whether the disk takes what an attempt writes: an OSError says why not."""

    def clear_rehearsal(self) -> None:
        """Remove a rehearsal's notice of the past (S20)."""
