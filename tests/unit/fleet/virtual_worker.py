"""A whole worker on virtual time: its host, its queue and its disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longhaul.fleet.lease import State
from longhaul.fleet.machine import Identity
from longhaul.fleet.surroundings import HostRecord, Published
from longhaul.fleet.taking import Job
from longhaul.fleet.worker import Worker
from tests.unit.fleet.stage import Stage
from tests.unit.fleet.virtual import QUEUE, Scene


class StageMachine:
    """A host of a group. `errors` are raised one after the other; `floor` says whether the group may shrink."""

    def __init__(self, stage: Stage, instance: str) -> None:
        self._stage, self.identity = stage, Identity(instance=instance)
        self.errors: dict[str, list[Exception]] = {}
        self.hangs: set[str] = set()
        self.kept, self.floor = False, False

    def _do(self, what: str) -> None:
        self._stage.note(f"{self.identity.instance} {what}")
        if what in self.hangs:
            self._stage.hang()
        self._stage.world.sleep(0.1)
        if self.errors.get(what):
            raise self.errors[what].pop(0)

    def keep(self) -> bool:
        """See `Machine.keep`."""
        if self.errors.get("keep"):
            raise self.errors["keep"].pop(0)
        return self.kept

    def suspend_rebalancing(self) -> None:
        """See `Machine.suspend_rebalancing`."""
        self._do("suspends")

    def protect(self, busy: bool) -> None:
        """See `Machine.protect`."""
        self._do("protected" if busy else "unprotected")

    def retire(self) -> bool:
        """See `Machine.retire`."""
        self._do("retires")
        return not self.floor

    def release_hook(self) -> None:
        """See `Machine.release_hook`."""
        self._do("hook")


class StageQueue:
    """A queue of jobs."""

    def __init__(self, stage: Stage, published: Published) -> None:
        self._stage, self._published = stage, published
        self.comes_at = 0.0
        self.is_paused = False
        self.pause_errors: list[Exception] = []
        self.errors: list[Exception] = []

    def published(self) -> Published | None:
        """See `Queue.published`."""
        self._stage.note("asks for the queue")
        if self.errors:
            raise self.errors.pop(0)
        return self._published if self._stage.world.now >= self.comes_at else None

    def paused(self) -> bool:
        """See `Queue.paused`."""
        self._stage.note("asks for a pause")
        if self.pause_errors:
            raise self.pause_errors.pop(0)
        return self.is_paused


class StageHosts:
    """Records of hosts."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.records: list[HostRecord] = []
        self.errors: list[Exception] = []
        self.hang = False

    def write(self, record: HostRecord) -> None:
        """See `Hosts.write`."""
        if self.hang:
            self._stage.hang()
        if self.errors:
            raise self.errors.pop(0)
        self._stage.note(f"record {record.doing}")
        self.records.append(record)


class Fleet(Scene):
    """A worker on a host of a group, with two jobs of weight 1 and two slots."""

    def __init__(self, jobs: Sequence[Job] = (Job(id="a", api_weight=1), Job(id="b", api_weight=1))) -> None:
        super().__init__(weight=2)
        self.machine = StageMachine(self, "i-1")
        self.hosts = StageHosts(self)
        published = Published(jobs=tuple(jobs), api_slots=2, work=self.work, results=self.results)
        self.queue = StageQueue(self, published)
        self.jobs = jobs

    def worker(self, **options: Any) -> Worker:
        """The worker of the host."""
        given: dict[str, Any] = {
            "keys": QUEUE,
            "store": self.store,
            "queue": self.queue,
            "machine": self.machine,
            "notices": self.notices,
            "work": self.work,
            "hosts": self.hosts,
            "journal": self.journal,
            "runtime": self.runtime,
            "terms": self.terms,
            "terminate_host": True,
        }
        return Worker(**{**given, **options})

    def works(self, until: float = 20000, **options: Any) -> int:
        """Run the worker to its end; its exit code."""
        code: int = self.play(self.worker(**options).run, until)
        return code

    def is_done(self, job: str) -> bool:
        """By its claim."""
        return QUEUE.claim(job) in self.store.objects and self.store.lease(QUEUE.claim(job)).state is State.DONE

    def count(self, what: str) -> int:
        """How often it happened."""
        return sum(did.startswith(what) for _, did in self.did)
