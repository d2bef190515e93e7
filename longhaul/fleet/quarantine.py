"""What keeps a host from taking anything: queries that may still run, or a disk that keeps nothing (F14, I5)."""

from __future__ import annotations

import logging
from functools import partial

from longhaul.fleet.aside import AliveError, Aside
from longhaul.fleet.attempt import JOURNAL_SECONDS, QUIESCE_SECONDS
from longhaul.fleet.errors import FleetError
from longhaul.fleet.keeper import Keeper
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.surroundings import Doing, Journal, Quarantine
from longhaul.fleet.work import Work

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 60.0  # between two tries
CHECK_SECONDS = 30.0  # that a megabyte may take to the disk


class Custody:
    """Of a host's quarantine. What is not known to be settled is not settled."""

    def __init__(self, journal: Journal, work: Work, keeper: Keeper, aside: Aside, runtime: Runtime) -> None:
        self._journal, self._work, self._keeper = journal, work, keeper
        self._aside, self._runtime = aside, runtime

    def settle_what_was_left(self) -> None:
        """Return once an earlier worker's quarantine is settled, or there is none; tried without end."""
        while True:
            try:
                quarantine = self._aside.call("reading the quarantine", self._journal.quarantine, JOURNAL_SECONDS)
            except (FleetError, OSError) as error:
                logger.error("whether there is a quarantine is not known: %s", error)
                self._wait()
                continue
            if quarantine is not None:
                self.settle(quarantine)
                if not self.keep(None):
                    self._wait()
                    continue
            return

    def settle(self, quarantine: Quarantine) -> None:
        """Return once all its queries are confirmed to have stopped; tried every minute without end."""
        while not self._confirmed(quarantine):
            self._keeper.record(Doing.QUARANTINED, quarantine=quarantine.unconfirmed)
            self._wait()
        logger.info("the quarantine is settled")

    def keep(self, quarantine: Quarantine | None) -> bool:
        """Whether it stands on the host's disk now."""
        try:
            self._aside.call("writing the quarantine", partial(self._journal.write, quarantine), JOURNAL_SECONDS)
        except (FleetError, OSError) as error:
            logger.error("the quarantine cannot be written: %s", error)
            return False
        return True

    def fault(self) -> str | None:
        """Why this host could not keep what is measured; None if it could."""
        try:
            self._aside.call("looking at the disk", self._journal.check, CHECK_SECONDS)
        except (FleetError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def wait_until_fit(self) -> None:
        """Return once the host's disk takes what an attempt writes; looked at every minute without end (F14)."""
        while (fault := self.fault()) is not None:
            logger.error("nothing can be measured here: %s; once that is mended this worker goes on", fault)
            self._keeper.record(Doing.QUARANTINED, why=fault)
            self._wait()

    def _confirmed(self, quarantine: Quarantine) -> bool:
        try:
            code = self._aside.run(
                lambda wake: self._work.quiesce(quarantine.places, on_exit=wake), seconds=QUIESCE_SECONDS
            )
        except (OSError, AliveError) as error:
            logger.error("settling the quarantine: %s: %s", type(error).__name__, error)
            return False
        return code == 0

    def _wait(self) -> None:
        self._aside.wait(lambda: False, self._runtime.clock() + SETTLE_SECONDS)
