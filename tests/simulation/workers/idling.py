"""What nobody holds does not wait beside a worker that has nothing to do (L2)."""

from __future__ import annotations

import math

from longhaul.fleet import keys
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import State, Terms
from longhaul.fleet.queue import PAUSED, QUEUE
from longhaul.fleet.taking import Job
from tests.simulation.server import Server
from tests.simulation.workers.group import Group
from tests.simulation.workers.instance import Instance
from tests.simulation.world import ViolationError

LOOK_SECONDS = 15.0
SCAN_SECONDS = 90.0  # from one look to the next with its jitter, by a slow clock, and the requests of taking
ROUNDING_SECONDS = 10.0  # whole seconds, and servers whose clocks differ


class Idling:
    """Looks on now and then."""

    def __init__(
        self, server: Server, queue: QueueKeys, group: Group, jobs: tuple[Job, ...], slots: int, terms: Terms
    ) -> None:
        self._server, self._queue, self._group = server, queue, group
        self._jobs, self._slots, self._terms = jobs, slots, terms
        self._idle_since: dict[str, float] = {}

    def look(self) -> None:
        """Between lease + grace after the last write of somebody who is gone and the next take-over lies one scan."""
        now = self._server.world.now
        for instance in self._group.instances:
            if self._idle(instance):
                self._idle_since.setdefault(instance.id, now)
            else:
                self._idle_since.pop(instance.id, None)
        job, since = self._waits()
        waited = now - since
        if job is None or waited < SCAN_SECONDS:
            return
        claim = self._server.lease(self._queue.claim(job.id))
        for name, idle in self._idle_since.items():
            own = claim is not None and claim.owner.instance == name  # it leaves to others what it gave up itself
            if now - idle >= SCAN_SECONDS and not own:
                raise ViolationError(f"L2 nobody holds {job.id} for {waited:.0f} s, and {name} has nothing to do")

    def _waits(self) -> tuple[Job | None, float]:
        """The heaviest job that may be taken, for that is the next one, and since when it and its slots may be."""
        now = self._server.world.now
        free_from = sorted(self._free_from(keys.slot(number)) for number in range(self._slots))
        since = {job: self._free_from(self._queue.claim(job.id)) for job in self._jobs}
        takeable = [job for job in self._jobs if since[job] <= now]
        if not takeable:
            return None, math.inf
        heaviest = max(takeable, key=lambda job: (job.api_weight, -since[job]))
        return heaviest, max(since[heaviest], free_from[heaviest.api_weight - 1], self._open_since())

    def _free_from(self, key: str) -> float:
        there = self._server.objects.get(key)
        if there is None or there.lease is None:
            return 0.0
        if there.lease.state is State.DONE:
            return math.inf
        if there.lease.state is not State.RUNNING:
            return there.written
        return there.written + there.lease.lease_seconds + self._terms.grace_seconds + ROUNDING_SECONDS

    def _open_since(self) -> float:
        """Of the queue: published, and not paused."""
        published = self._server.objects.get(self._queue.document(QUEUE))
        if published is None or self._queue.document(PAUSED) in self._server.objects:
            return math.inf
        return max(published.written, self._server.last_deleted)

    def _idle(self, instance: Instance) -> bool:
        if instance.state != "running" or instance.worker is None or instance.notice is not None:
            return False
        if instance.troubled or instance.quarantine is not None:
            return False
        claims = (self._server.lease(self._queue.claim(job.id)) for job in self._jobs)
        return not any(c and c.state is State.RUNNING and c.owner.instance == instance.id for c in claims)
