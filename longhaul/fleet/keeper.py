"""What a worker does to its host: record, rebalancing, protection, retirement. What fails is tried again (F9, F16)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from longhaul.fleet.aside import Aside
from longhaul.fleet.errors import FleetError
from longhaul.fleet.machine import Machine, NoticeKind
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.surroundings import Doing, HostRecord, Hosts
from longhaul.fleet.work import Unconfirmed

logger = logging.getLogger(__name__)

MACHINE_SECONDS = 60.0  # that a request about the host may take
RECORD_SECONDS = 10.0
RECORD_EVERY_SECONDS = 300.0  # while nothing changes: housekeeping misses a host after 15 minutes (F21)
SLACK_SECONDS = 0.5  # before the time by which the worker must have left
UNPROTECTED_SECONDS = 300.0  # after which work is taken although protection cannot be had

T = TypeVar("T")


class Keeper:
    """Of one host, by one worker. Nothing here is fatal; every method ends in time and may raise `HaltedError`."""

    def __init__(self, machine: Machine, hosts: Hosts, worker: str, aside: Aside, runtime: Runtime) -> None:
        self._machine, self._hosts, self._worker = machine, hosts, worker
        self._aside, self._runtime = aside, runtime
        self._started = runtime.wall()
        self._rebalancing = True  # not known to be suspended
        self._protected: bool | None = None  # not known
        self._unprotected_since: float | None = None  # the first time that it was wanted and not to be had
        self._recorded: tuple[object, float] | None = None

    # ---- record ----------------------------------------------------------------------------------------------------
    def record(
        self,
        doing: Doing,
        *,
        job: str | None = None,
        quarantine: Unconfirmed | None = None,
        why: str | None = None,
        seconds: float = RECORD_SECONDS,
    ) -> None:
        """Store what the worker does, if that has changed or is a while ago."""
        what, now = (doing, job, quarantine, why), self._runtime.clock()
        if self._recorded is not None and self._recorded[0] == what and now < self._recorded[1] + RECORD_EVERY_SECONDS:
            return
        record = HostRecord(
            worker=self._worker, doing=doing, started=self._started, job=job, quarantine=quarantine, why=why
        )
        if self._try("storing the host's record", partial(self._hosts.write, record), seconds) is not False:
            self._recorded = (what, now)

    def running(self, job: str) -> None:
        """Store that an attempt begins; nobody waits for it."""
        record = HostRecord(worker=self._worker, doing=Doing.RUNNING, started=self._started, job=job)
        self._aside.start("storing the host's record", partial(self._hosts.write, record))
        self._recorded = None

    # ---- group -----------------------------------------------------------------------------------------------------
    def keep_hosts_where_they_are(self) -> None:
        """Suspend `AZRebalance`, until it was done once (S4)."""
        if self._rebalancing:
            done = self._try("suspending AZRebalance", self._machine.suspend_rebalancing, MACHINE_SECONDS)
            self._rebalancing = done is False

    def busy(self) -> bool:
        """Protect the host before anything is taken (S64); whether that may be done now.

        Without protection work goes on after five minutes: whoever scales in then costs an attempt, not the queue.
        """
        if self._protected:
            return True
        protect = partial(self._machine.protect, True)
        if self._try("protecting the host", protect, MACHINE_SECONDS) is not False:
            self._protected, self._unprotected_since = True, None
            return True
        self._protected = None
        now = self._runtime.clock()
        if self._unprotected_since is None:
            self._unprotected_since = now
        return now >= self._unprotected_since + UNPROTECTED_SECONDS

    def idle(self) -> None:
        """Clear the protection, except of a host that is to be kept."""
        if self._protected is False:
            return
        kept = self._kept()
        if kept is not False:
            if kept:
                self.busy()
            return
        done = self._try("clearing protection", partial(self._machine.protect, False), MACHINE_SECONDS)
        self._protected = None if done is False else False

    def retire(self, why: str, *, terminate: bool) -> bool:
        """End the host, or just its worker. False: it is to be kept, or its group is as small as it may be (F16)."""
        if not terminate:
            self.record(Doing.ENDED, why=why)
            return True
        if self._kept() is not False:
            self.busy()
            return False
        if not self._try("retiring the host", self._machine.retire, MACHINE_SECONDS):
            return False
        self.record(Doing.ENDED, why=why)
        return True

    def leave(self, until: float) -> None:
        """The host had a notice: say so, and let a group that waits go on, by that time of the host's clock."""
        notice = self._aside.notice
        left = until - self._runtime.clock() - SLACK_SECONDS
        if notice is None or left <= 0:
            return  # the record grows old, and the hook has a time of its own
        self.record(Doing.ENDED, why=f"{notice.kind}: {notice.text}", seconds=min(RECORD_SECONDS, left / 2))
        if notice.kind is NoticeKind.SCALE_IN:
            left = until - self._runtime.clock() - SLACK_SECONDS
            self._try("releasing the hook", self._machine.release_hook, left)

    def _kept(self) -> bool | None:
        """Whether the host is to be kept; None if that cannot be known now, which counts as yes."""
        kept: list[bool] = []
        done = self._try("reading KeepHost", lambda: kept.append(self._machine.keep()), MACHINE_SECONDS)
        return None if done is False else kept[0]

    def _try(self, name: str, call: Callable[[], T], seconds: float) -> T | bool:
        """What it returns; False if it failed, which the log says."""
        try:
            return self._aside.call(name, call, seconds)
        except (FleetError, OSError) as error:
            logger.warning("%s: %s", name, error)
            return False
