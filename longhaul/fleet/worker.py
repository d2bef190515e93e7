"""A worker: one process that settles what an earlier one left, waits for its queue and works it off (F9)."""

from __future__ import annotations

import logging
import math

from longhaul.fleet.aside import Aside, HaltedError
from longhaul.fleet.attempt import HAND_OVER_KILL_SECONDS, HAND_OVER_SECONDS, Ending, How
from longhaul.fleet.control import Equipment
from longhaul.fleet.errors import FleetError
from longhaul.fleet.keeper import Keeper
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Owner, Terms
from longhaul.fleet.lookout import LOOK_SECONDS, Lookout
from longhaul.fleet.machine import Machine, Notice, Notices
from longhaul.fleet.objects import Store
from longhaul.fleet.quarantine import Custody
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.shift import READ_SECONDS, Shift
from longhaul.fleet.slots import Slots
from longhaul.fleet.surroundings import Doing, Hosts, Journal, Published, Queue
from longhaul.fleet.tasks import Waiter
from longhaul.fleet.work import Work

logger = logging.getLogger(__name__)

RETIRED, QUARANTINED, INTERRUPTED = 0, 75, 76  # exit codes
WAIT_SECONDS = 3600.0  # for the queue (S79)
FAULTS = 2  # attempts in a row that a host fails for reasons of its own before it takes nothing more


class Worker:
    """One process on one host, for one queue. `run` is all that its main thread does.

    `work` is for settling a quarantine, before the queue is known; the queue's own comes with `Published`. Without
    `terminate_host` retiring ends only the worker. `wait_seconds` is how long the queue is waited for, `look_seconds`
    the time between two looks for a notice.
    """

    def __init__(
        self,
        *,
        keys: QueueKeys,
        store: Store,
        queue: Queue,
        machine: Machine,
        notices: Notices,
        work: Work,
        hosts: Hosts,
        journal: Journal,
        runtime: Runtime,
        terms: Terms,
        terminate_host: bool = False,
        wait_seconds: float = WAIT_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.owner = Owner(instance=machine.identity.instance, worker=runtime.token())
        self.lookout = Lookout(notices, runtime, look_seconds)
        self._keys, self._store, self._queue = keys, store, queue
        self._work, self._journal, self._runtime, self._terms = work, journal, runtime, terms
        self._terminate_host, self._wait_seconds = terminate_host, wait_seconds
        self._faults = 0  # since a job was done here
        self._waiter = Waiter(runtime)
        self._aside = Aside(runtime, self._waiter, self.lookout)
        self._keeper = Keeper(machine, hosts, self.owner.worker, self._aside, runtime)
        self._custody = Custody(journal, work, self._keeper, self._aside, runtime)

    def hand_in(self, notice: Notice) -> None:
        """A notice from elsewhere, as SIGTERM. A signal handler may call it: it takes no lock (F13)."""
        self.lookout.hand_in(notice)

    def run(self) -> int:
        """Until there is nothing left to do here; the exit code of the process."""
        try:
            self._journal.clear_rehearsal()  # before the first look: a notice of the past would end this worker (S20)
        except OSError as error:
            logger.warning("an old rehearsal cannot be cleared: %s", error)
        self._work.tell_deadline(-math.inf)  # to whatever an earlier worker may have left running
        self.lookout.start(self._waiter.wake)
        try:
            return self._run()
        except HaltedError:
            return self._leave()
        finally:
            self.lookout.stop()

    def _run(self) -> int:
        self._custody.settle_what_was_left()
        self._custody.wait_until_fit()
        published = self._published()
        if published is None:
            return RETIRED
        logger.info("jobs: %d, API slots: %d", len(published.jobs), published.api_slots)
        shift = Shift(self._equipment(published), published, self._queue, self.owner, self._keeper, self._aside)
        while True:
            outcome = shift.turn()
            if isinstance(outcome, Ending):
                code = self._after(outcome)
                if code is not None:
                    return code
            elif outcome is not None:
                if self._retire(outcome.value):
                    return RETIRED
                shift.stay()

    def _published(self) -> Published | None:
        """The queue; None if it never came and the host has retired (S79)."""
        until = self._runtime.clock() + self._wait_seconds
        while True:
            self._keeper.keep_hosts_where_they_are()
            self._keeper.record(Doing.WAITING)
            try:
                published = self._aside.call("reading the queue", self._queue.published, READ_SECONDS)
                if published is not None:
                    return published
            except (FleetError, OSError) as error:
                logger.warning("the queue cannot be read: %s", error)
            if self._runtime.clock() >= until and self._retire("no queue was published"):
                return None
            self._aside.wait(lambda: False, self._runtime.clock() + self._runtime.jittered(self._terms.scan_seconds))

    def _equipment(self, published: Published) -> Equipment:
        slots = Slots(
            count=published.api_slots, owner=self.owner, store=self._store, runtime=self._runtime, terms=self._terms
        )
        return Equipment(
            keys=self._keys,
            store=self._store,
            slots=slots,
            work=published.work,
            results=published.results,
            journal=self._journal,
            lookout=self.lookout,
            waiter=self._waiter,
            runtime=self._runtime,
            terms=self._terms,
        )

    def _after(self, ending: Ending) -> int | None:
        """What an attempt's end means for the worker; the exit code, if it is the worker's end too."""
        handed_over = ending.how is How.HANDED_OVER
        if handed_over:
            self._aside.heeds_notice = False
        kept = self._custody.keep(ending.quarantine)  # instead of the run, which was on record while it lasted
        if handed_over:
            return self._leave()
        if ending.quarantine is None:
            return QUARANTINED if self._unfit(ending) else None
        if not kept:  # a worker that starts again would not know of it
            self._custody.settle(ending.quarantine)
            self._custody.keep(None)
            return None
        self._keeper.record(Doing.QUARANTINED, quarantine=ending.quarantine.unconfirmed, why=ending.why)
        return QUARANTINED

    def _unfit(self, ending: Ending) -> bool:
        """Whether two attempts in a row were given up for a fault of this host: another may do better (F14, F17).

        Its record tells housekeeping, which replaces an instance that stays so (F21).
        """
        if ending.how is How.DONE:
            self._faults = 0
            return False
        fault = ending.fault or self._custody.fault()
        if fault is None:
            return False
        self._faults += 1
        if self._faults < FAULTS:
            return False
        logger.error(
            "%d attempts in a row ended for a fault of this host, %s: %s; mend it, then start the worker again",
            self._faults,
            self.owner.instance,
            fault,
        )
        self._keeper.idle()
        self._keeper.record(Doing.QUARANTINED, why=fault)
        return True

    def _retire(self, why: str) -> bool:
        logger.info("nothing left to do here: %s", why)
        return self._keeper.retire(why, terminate=self._terminate_host)

    def _leave(self) -> int:
        """F13: the host had a notice, and is not retired. Nothing is held any more."""
        self._aside.heeds_notice = False
        self._aside.kill(self._runtime.clock() + HAND_OVER_KILL_SECONDS)  # of settling, perhaps
        self._keeper.leave(self.lookout.at + HAND_OVER_SECONDS)
        return INTERRUPTED
