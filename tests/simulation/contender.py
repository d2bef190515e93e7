"""A worker as far as leases go: it takes, renews, works, completes and hands over with the fleet's own code.

What it measures is nothing; the worker proper, with its processes and notices, is still to come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from longhaul.fleet import completion
from longhaul.fleet import lease as rules
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Verdict, keep
from longhaul.fleet.keys import Attempt, QueueKeys
from longhaul.fleet.lease import Completion, Outcome, Owner, Record, State, Terms
from longhaul.fleet.listing import Scan, Scanner
from longhaul.fleet.slots import Shortage, Slots
from longhaul.fleet.taking import Job, Taken, Taker, candidates
from tests.simulation.host import Host
from tests.simulation.world import ViolationError

TRIALS, TRIALS_SECONDS = 3, (30.0, 150.0)
UPLOADS = (0.5, 60.0, 290.0)
HAND_OVER_SECONDS = 20.0


class Contender:
    """The one worker of a host."""

    def __init__(self, host: Host, keys: QueueKeys, jobs: Sequence[Job], slots: int, terms: Terms) -> None:
        self.host, self.keys, self.jobs, self.terms = host, keys, jobs, terms
        self.world, self.server, self.runtime = host.world, host.server, host.runtime
        self.owner = Owner(instance=f"i-{host.name}", worker=host.name)
        self.slots = Slots(count=slots, owner=self.owner, store=host, runtime=host.runtime, terms=terms)
        self.taker = Taker(keys=keys, slots=self.slots, owner=self.owner, store=host, runtime=host.runtime, terms=terms)
        self.scanner = Scanner(keys=keys, store=host, runtime=host.runtime, terms=terms)

    def main(self) -> None:
        """Until all jobs are done, or a notice."""
        while not self.host.noticed:
            try:
                scan = self.scanner.scan()
                if all(scan.done(job.id) for job in self.jobs):
                    self._index(scan)
                    return
                self._take_one(scan)
            except UnansweredError:
                pass
            self.runtime.sleep(self.runtime.jittered(self.terms.scan_seconds))

    def _index(self, scan: Scan) -> None:
        for job in self.jobs:
            if job.id not in scan.indexed:
                claim = rules.seen(self.host.get(self.keys.claim(job.id)))
                if claim is not None:
                    completion.repair_index(self.host, self.keys, job.id, claim)

    def _take_one(self, scan: Scan) -> None:
        takeable = [job for job in self.jobs if scan.takeable(job.id, self.terms)]
        for job in candidates(takeable, self.runtime.fraction):
            taken = self.taker.take(job)
            if isinstance(taken, Taken):
                self._work(taken)
                return
            if isinstance(taken, Shortage):
                return

    def _work(self, taken: Taken) -> None:
        claim, world = taken.claim, self.world
        if len(taken.slots) != taken.job.api_weight:
            raise ViolationError(f"F6 {taken.job.id} runs with {len(taken.slots)} slots")
        for holding in (claim, *taken.slots):
            world.spawn(self.host, lambda holding=holding: keep(holding, self.runtime, self.terms))
        attempt = Attempt(generation=claim.body.generation, number=claim.body.attempt)
        prefix = self.keys.attempt(taken.job.id, attempt)
        trial_seconds = TRIALS_SECONDS[self.host.choices.pick(2, 0.1)]
        records = []
        for name in ("start", *(f"trial-{number}" for number in range(TRIALS))):
            if not self._go_on(taken):
                return
            self.server.act(claim)
            etag = self._upload(taken, f"{prefix}{name}.json", 0.1)
            if etag is None:
                return
            records.append(Record(key=f"{prefix}{name}.json", etag=etag))
            world.sleep(trial_seconds)
        summary = f"{prefix}job-summary.json"
        seconds = UPLOADS[self.host.choices.pick(3, 0.1)]
        if self._upload(taken, summary, seconds) is None or not self._go_on(taken):
            return
        verdict = claim.complete(Completion(outcome=Outcome.SUCCESS, summary=summary, records=tuple(records)))
        if verdict is not Verdict.COMPLETED:
            self._give_up(taken, State.RELEASED)
            return
        now = self.server.seen(claim.key)
        if now is not None:
            with contextlib.suppress(UnansweredError):
                completion.repair_index(self.host, self.keys, taken.job.id, now)
        self.slots.give_back(taken.slots)

    def _go_on(self, taken: Taken) -> bool:
        """Whether the attempt goes on; if not, it is given back."""
        if self.host.noticed:
            self._give_up(taken, State.INTERRUPTED)
            return False
        if not taken.claim.held:
            if not self.host.troubled:
                raise ViolationError(f"E1 {self.host.name} lets {taken.claim.key} expire, and nothing ails it")
            self._give_up(taken, State.RELEASED)
            return False
        return True

    def _give_up(self, taken: Taken, state: State) -> None:
        before = self.runtime.clock()
        self.taker.give_up(taken, state, before + HAND_OVER_SECONDS)
        needed = self.runtime.clock() - before
        if needed > 100 and self.world.now > self.host.paused_until + needed:
            raise ViolationError(f"L3 {self.host.name} needed {needed:.0f} s to hand over")

    def _upload(self, taken: Taken, key: str, seconds: float) -> str | None:
        """A transfer takes its time, and all of it again while the host is cut off."""
        self.world.sleep(seconds)
        while self.world.now < self.host.cut_off_until:
            if not self._go_on(taken):
                return None
            self.world.sleep(5)
        return self.server.upload(key, f"{key} of {self.host.name}".encode())
