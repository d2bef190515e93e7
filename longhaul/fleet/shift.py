"""The loop of a worker: look at the queue, take and run a job, or see whether the host may go (F9, F16)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from longhaul.fleet import completion, lease
from longhaul.fleet.aside import Aside, HaltedError
from longhaul.fleet.attempt import Attempt, Ending, How
from longhaul.fleet.control import Equipment
from longhaul.fleet.errors import FleetError
from longhaul.fleet.keeper import Keeper
from longhaul.fleet.lease import Lease, Owner, State
from longhaul.fleet.listing import Scan, Scanner
from longhaul.fleet.retirement import Decision, Sighting, decide, sighted
from longhaul.fleet.slots import Shortage
from longhaul.fleet.surroundings import Doing, Published, Queue
from longhaul.fleet.taking import Job, Miss, Taken, Taker, candidates
from longhaul.fleet.tasks import Task

logger = logging.getLogger(__name__)

READ_SECONDS = 120.0  # that a document of the queue may take
SCAN_LIMIT_SECONDS = 3600.0  # of a look at the whole queue, whose requests have time-outs of their own
TAKE_LIMIT_SECONDS = 900.0
UNDO_SECONDS = 55.0  # after a notice, in which a taking that was under way must be over to be undone
GIVE_BACK_SECONDS, SLOTS_SECONDS = 20.0, 10.0


class Shift:
    """From the publication of the queue on. Everything happens in the one thread that calls `turn`."""

    def __init__(
        self, equipment: Equipment, published: Published, queue: Queue, owner: Owner, keeper: Keeper, aside: Aside
    ) -> None:
        self._equipment, self._queue, self._owner = equipment, queue, owner
        self._jobs, self._api_slots = published.jobs, published.api_slots
        self._keeper, self._aside = keeper, aside
        self._runtime, self._terms = equipment.runtime, equipment.terms
        self._scanner = Scanner(
            keys=equipment.keys, store=equipment.store, runtime=equipment.runtime, terms=equipment.terms
        )
        self._taker = Taker(
            keys=equipment.keys,
            slots=equipment.slots,
            owner=owner,
            store=equipment.store,
            runtime=equipment.runtime,
            terms=equipment.terms,
            measured=equipment.results.measured,
            on_deadline=equipment.work.tell_deadline,
        )
        self._sightings: Mapping[str, Sighting] = {}  # since the worker fell idle
        self._not_before: dict[str, float] = {}  # jobs that were given up here: others may try first

    def turn(self) -> Ending | Decision | None:
        """One look. How an attempt ended, why the host may go, or None after a pause."""
        try:
            scan = self._aside.call("scanning", self._scanner.scan, SCAN_LIMIT_SECONDS)
        except (FleetError, OSError) as error:
            logger.warning("no look at the queue: %s", error)
            self._pause()
            return None
        self._tidy(scan)
        taken = self._take(scan)
        if taken is not None:
            return self._attempt(taken)
        return self._idle(scan)

    def stay(self) -> None:
        """The host may not go after all: what was seen of other hosts has to be seen again, after a pause (F16)."""
        self._sightings = {}
        self._pause()

    # ---- a job -------------------------------------------------------------------------------------------------------
    def _take(self, scan: Scan) -> Taken | None:
        """A job, the heaviest first; a lighter one never overtakes a heavier that only lacks slots (F6, S74)."""
        now = self._runtime.clock()
        takeable = [
            job
            for job in self._jobs
            if scan.takeable(job.id, self._terms, self._owner) and self._not_before.get(job.id, now) <= now
        ]
        if not takeable or self._paused() or not self._keeper.busy():
            return None
        for job in candidates(takeable, self._runtime.fraction):
            try:
                taken = self._take_one(job, indexed=job.id in scan.indexed)
            except (FleetError, OSError) as error:
                logger.warning("%s cannot be taken: %s", job.id, error)
                continue
            if isinstance(taken, Taken):
                return taken
            logger.info("%s is not taken: %s", job.id, taken.value)
            if isinstance(taken, Shortage):
                return None
        return None

    def _paused(self) -> bool:
        """Whether nothing is to be taken, or that cannot be known (F25)."""
        try:
            return self._aside.call("looking for a pause", self._queue.paused, READ_SECONDS)
        except (FleetError, OSError) as error:
            logger.warning("whether the queue is paused is not known: %s", error)
            return True

    def _take_one(self, job: Job, *, indexed: bool) -> Taken | Shortage | Miss:
        task = self._aside.start(f"taking {job.id}", partial(self._taker.take, job, indexed=indexed))
        try:
            return self._aside.result(task, TAKE_LIMIT_SECONDS)
        except HaltedError:
            self._undo(task)
            raise

    def _undo(self, task: Task[Taken | Shortage | Miss]) -> None:
        """A notice came while a job was being taken: nothing of it runs, all of it is given back (F13)."""
        self._aside.heeds_notice = False
        self._aside.wait(lambda: task.ended, self._equipment.lookout.at + UNDO_SECONDS)
        if not task.ended or task.error is not None or not isinstance(task.result, Taken):
            return  # whatever of it lands later expires
        until = self._runtime.clock() + GIVE_BACK_SECONDS
        give_up = partial(self._taker.give_up, task.result, State.INTERRUPTED, until)
        try:
            self._aside.call("giving back what was taken", give_up, GIVE_BACK_SECONDS + SLOTS_SECONDS + 1)
        except (FleetError, OSError) as error:
            logger.warning("%s", error)

    def _attempt(self, taken: Taken) -> Ending:
        job = taken.job.id
        logger.info("attempt %d of %s begins", taken.place.attempt.number, job)
        self._keeper.running(job)
        self._sightings = {}
        ending = Attempt(self._equipment, taken).run()
        logger.info("attempt %d of %s: %s", taken.place.attempt.number, job, ending.how.value)
        if ending.how is How.GIVEN_UP:
            self._not_before[job] = self._runtime.clock() + self._terms.lease_seconds
        return ending

    # ---- nothing to take ---------------------------------------------------------------------------------------------
    def _idle(self, scan: Scan) -> Decision | None:
        self._keeper.keep_hosts_where_they_are()
        self._keeper.idle()
        self._sightings = sighted(self._sightings, scan)
        decision = decide(
            self._sightings,
            scan,
            self._jobs,
            api_slots=self._api_slots,
            instance=self._owner.instance,
            now=self._runtime.clock(),
        )
        if decision is not Decision.STAY:
            return decision
        self._keeper.record(Doing.IDLE)
        self._pause()
        return None

    def _tidy(self, scan: Scan) -> None:
        """Release claims of this host, which runs nothing now (S46); repair the index of jobs that are done (F7)."""
        strays = [job for job, seen in scan.claims.items() if seen.lease is not None and self._stray(seen.lease)]
        bare = [job.id for job in self._jobs if scan.done(job.id) and job.id not in scan.indexed]
        if not strays and not bare:
            return

        def tidy() -> None:
            for job in strays:
                logger.warning("%s is claimed by this host, which does not run it: released", job)
                self._taker.release_stray(job, scan.claims[job], self._runtime.clock() + GIVE_BACK_SECONDS)
            for job in bare:
                claim = lease.seen(self._equipment.store.get(self._equipment.keys.claim(job)))
                if claim is not None:
                    completion.repair_index(self._equipment.store, self._equipment.keys, job, claim)

        try:
            self._aside.call("tidying the queue", tidy, SCAN_LIMIT_SECONDS)
        except (FleetError, OSError) as error:
            logger.warning("tidying the queue: %s", error)

    def _stray(self, claim: Lease) -> bool:
        return claim.owner.instance == self._owner.instance and claim.state is State.RUNNING

    def _pause(self) -> None:
        self._aside.wait(lambda: False, self._runtime.clock() + self._runtime.jittered(self._terms.scan_seconds))
