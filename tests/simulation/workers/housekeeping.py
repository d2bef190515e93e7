"""Housekeeping on virtual time: the rules of `longhaul.fleet.housekeeping`, EC2's stale answers, and faults between."""

from __future__ import annotations

from collections.abc import Mapping

from longhaul.fleet import completion, hosts, keys
from longhaul.fleet import housekeeping as rules
from longhaul.fleet import lease as leases
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import RECLAIMED, Seen, Terms
from longhaul.fleet.status import HostStatus
from tests.simulation.host import Host
from tests.simulation.server import moment
from tests.simulation.workers.group import Group
from tests.simulation.world import ViolationError

EVERY_SECONDS = 120.0
STALE_SECONDS = (0, 20, 90)  # that EC2's answers are behind


class Housekeeping:
    """One function on a schedule."""

    def __init__(self, host: Host, group: Group, queue: QueueKeys, jobs: list[str], slots: int, terms: Terms) -> None:
        self._host, self._group, self._queue, self._jobs = host, group, queue, jobs
        self._slots, self._terms = slots, terms
        self.stale = 0  # seconds that EC2's answers are behind, if that is told

    def run(self, until: float) -> None:
        """Look now and then, until that time at least, and until there is nothing left to look after."""
        world = self._host.world
        while world.now < until or self._group.live or self._group.minimum:
            world.sleep(EVERY_SECONDS)
            try:
                self._look()
            except UnansweredError:
                continue  # the next run is soon

    def _look(self) -> None:
        now = moment(int(self._host.world.now))
        claims = self._claims()
        slots = {key: self._read(key) for key in map(keys.slot, range(self._slots))}
        there = {key: seen for key, seen in slots.items() if seen is not None}
        there |= {self._queue.claim(job): seen for job, seen in claims.items()}
        stale = self.stale or STALE_SECONDS[self._host.choices.pick(len(STALE_SECONDS), 0.2)]
        for mark in rules.marks(there, self._asked(there, stale), now=now, token=self._host.runtime.token):
            self._check(mark)
            self._host.put(mark.key, leases.encode(mark.body), replaces=mark.replaces)
        indexes = {job: completion.read_index(self._host, self._queue, job) for job in claims}
        found = {job: index for job, index in indexes.items() if index is not None}
        for job in rules.indexes_to_repair(claims, found):
            completion.repair_index(self._host, self._queue, job, claims[job])
        rules.keep_capacity(
            self._jobs, self._group.minimum, read_claims=self._claims, set_minimum=self._group.set_minimum
        )
        self._replace_lifeless(claims, stale)

    def _replace_lifeless(self, claims: Mapping[str, Seen], stale: int) -> None:
        now = moment(int(self._host.world.now))
        described = [one for one in self._described(stale).values() if one.state == "running"]
        records = {one.id: status for one in described if (status := self._record(one.id)) is not None}
        dead = rules.lifeless(
            described,
            records,
            list(claims.values()),
            work_left=rules.unfinished(self._jobs, claims),
            now=now,
            terms=self._terms,
        )
        for instance in self._group.live:
            if instance.id in dead.unhealthy:
                self._group.terminate(instance, "is unhealthy")

    def _record(self, instance: str) -> HostStatus | None:
        found = self._host.get(self._queue.host(instance))
        there = hosts.stored(found)
        return None if found is None or there is None else HostStatus(host=there, seen=found.modified, alive=True)

    def _claims(self) -> dict[str, Seen]:
        claims = {job: self._read(self._queue.claim(job)) for job in self._jobs}
        return {job: seen for job, seen in claims.items() if seen is not None}

    def _read(self, key: str) -> Seen | None:
        return leases.seen(self._host.get(key))

    def _asked(self, there: Mapping[str, Seen], stale: int) -> rules.Gone:
        owners = {seen.lease.owner.instance for seen in there.values() if seen.lease is not None}
        described = self._described(stale)
        launched = {one.id: moment(int(one.launched)) for one in self._group.instances}
        return rules.Gone(
            described={name: described[name] for name in owners if name in described},
            unknown={name: launched.get(name) for name in owners if name not in described},
        )

    def _described(self, stale: int) -> dict[str, rules.Instance]:
        """As of a while ago: what was launched since is not there, what ended since still runs."""
        as_of = self._host.world.now - stale
        return {
            one.id: rules.Instance(
                id=one.id,
                state=one.state_at(as_of),
                launched=moment(int(one.launched)),
                reclaimed=one.reclaimed,
            )
            for one in self._group.instances
            if one.launched <= as_of
        }

    def _check(self, mark: rules.Mark) -> None:
        """S67: only the dead are marked; "spot" is an excuse that only EC2 gives."""
        for instance in self._group.instances:
            if instance.id == mark.body.owner.instance:
                if instance.state != "terminated":
                    raise ViolationError(f"I1 housekeeping marks {mark.key} of {instance.name}, which lives")
                if mark.body.marked_by == RECLAIMED and not instance.reclaimed:
                    raise ViolationError(f"F17 housekeeping excuses {instance.name}, which nobody took back")
