"""S3 as it is: atomic, consistent, whole seconds, conditions checked as a write applies. And so are the invariants."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

import msgspec

from longhaul.fleet import lease as rules
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Lease, Owner, Seen, State
from longhaul.fleet.objects import Found, Listed, Listing
from tests.simulation.world import ViolationError, World

WITHOUT_SUMMARY = (rules.Outcome.REPORT_ERROR, rules.Outcome.ABANDONED)
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@cache
def moment(second: int) -> datetime:
    """A second of virtual time, as clocks and calendars show it."""
    return EPOCH + timedelta(seconds=second)


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An object, with when it was really written."""

    body: bytes
    etag: str
    written: float
    listed: Listed
    lease: Lease | None  # if it is one


class Server:
    """The bucket. `held` lists every holding of a lease that some live host believes in."""

    def __init__(self, world: World, keys: QueueKeys, slots: int) -> None:
        self.world, self.keys, self.slots = world, keys, slots
        self.objects: dict[str, Stored] = {}
        self.holdings: dict[str, list[tuple[Holding, Callable[[], bool]]]] = {}
        self.completions: dict[tuple[str, int], Lease] = {}
        self._eaten: dict[tuple[str, int], Lease] = {}  # completions of which nothing told when the claim went
        self.on_done: Callable[[str, Lease], None] = lambda key, lease: None  # for what else must be true
        self.attempts: dict[str, int] = {}
        self.begun: dict[tuple[str, int], tuple[str, float]] = {}  # by whom and when, by claim and attempt
        self._done_by: set[tuple[str, Owner, int]] = set()
        self.last_deleted = 0.0  # when an operator last deleted something
        self.last_eaten = -1.0  # when a lifecycle rule last took something
        self._listed: dict[str, dict[str, Listed]] = {}  # what is below each prefix that ends with a slash
        self._folders: dict[str, list[dict[str, Listed]]] = {}  # those that an object is in
        self._etags: dict[bytes, str] = {}  # the same bytes have the same ETag, as S3's MD5 has it

    # ---- what requests do; `skew` is of the clock of whichever of S3's servers answers, in seconds ------------------
    def get(self, key: str, skew: int = 0) -> Found | None:
        """GET."""
        there = self.objects.get(key)
        if there is None:
            return None
        date = moment(int(self.world.now) + skew)
        return Found(body=there.body, etag=there.etag, modified=there.listed.modified, date=date)

    def list(self, prefix: str, skew: int = 0) -> Listing:
        """LIST."""
        objects = list(self._listed.setdefault(prefix, {}).values())
        return Listing(objects=objects, date=moment(int(self.world.now) + skew))

    def put(self, key: str, body: bytes, replaces: str | None, skew: int = 0) -> str | None:
        """PUT with a condition."""
        there = self.objects.get(key)
        if (there.etag if there else None) != replaces:
            self.world.note(f"    S3 refuses a write of {key}")
            return None
        lease = None
        if "/claims/" in key or "/slots/" in key:
            lease = _lease(body)
            self._check(key, there, lease)
        return self._store(key, body, lease, skew)

    def upload(self, key: str, body: bytes) -> str:
        """PUT without one, for results."""
        return self._store(key, body, None, 0)

    def _store(self, key: str, body: bytes, lease: Lease | None, skew: int) -> str:
        now = self.world.now
        etag = self._etags.setdefault(body, f"e{len(self._etags)}")
        listed = Listed(key=key, etag=etag, modified=moment(int(now) + skew))
        self.objects[key] = Stored(body, etag, now, listed, lease)
        for folder in self._folders.get(key) or self._place(key):
            folder[key] = listed
        if self.world.trace is not None:
            self.world.note(f"    S3 has {key} {_short(body)}")
        return etag

    def etag_of(self, body: bytes) -> str | None:
        """That an object with these bytes has, if there ever was one."""
        return self._etags.get(body)

    def eat(self, job: str) -> None:
        """A lifecycle rule takes a finished job's claim (S56), a day old: nobody takes a job for so long."""
        key = self.keys.claim(job)
        there = self.lease(key)
        if there is None or there.state is not State.DONE or self._is_sought(key):
            return
        index = self.objects.get(self.keys.index(job))
        if index is None or self.objects[key].etag.encode() not in index.body:
            # nothing is left that could tell: the job runs again, unless its index is on its way
            self._eaten[key, there.generation] = self.completions.pop((key, there.generation))
        self.world.note(f"    a lifecycle rule takes {key}")
        self.last_eaten = self.world.now
        self.delete(key)

    def _is_sought(self, key: str) -> bool:
        """Whether somebody has written to the lease and does not know yet what became of it, standing still."""
        return any(
            alive() and holding.stood is None and holding._body is not None and not holding._over
            for holding, alive in self.holdings.get(key, ())
        )

    def delete(self, key: str) -> None:
        """As an operator may; workers never do."""
        self.last_deleted = self.world.now
        if self.objects.pop(key, None) is not None:
            for folder in self._folders[key]:
                del folder[key]

    def requeue(self, job: str) -> None:
        """An operator wants a finished job to run again: the next generation."""
        key = self.keys.claim(job)
        there = self.lease(key)
        if there is None or there.state is not State.DONE:
            return
        again = rules.requeued(there, resume=False, nonce=f"requeue-{self.world.now}", wall=there.renewed)
        self.put(key, rules.encode(again), self.objects[key].etag)

    # ---- what is true ----------------------------------------------------------------------------------------------
    def lease(self, key: str) -> Lease | None:
        """The lease that stands there."""
        there = self.objects.get(key)
        return there.lease if there else None

    def seen(self, key: str) -> Seen | None:
        """The same with its ETag."""
        return rules.seen(self.get(key))

    def is_done(self, job: str) -> bool:
        """Whether its claim says so."""
        there = self.lease(self.keys.claim(job))
        return there is not None and there.state is State.DONE

    def act(self, holding: Holding) -> None:
        """Somebody does what only the owner may do (I1)."""
        there = self.lease(holding.key)
        mine = (holding.owner, holding.body.attempt, State.RUNNING)
        if there is None or (there.owner, there.attempt, there.state) != mine:
            raise ViolationError(f"I1 {holding.owner.worker} acts on {holding.key}, which is {_who(there)}")

    def check_place(self, instance: str, key: str) -> None:
        """A worker writes leases, the index, its host's record, and what attempts of its own measured (I9)."""
        if key == self.keys.host(instance) or key.startswith(("fleet/slots/", self.keys.claims, self.keys.done)):
            return
        job = key.split("/")[3]
        attempt = self.keys.attempt_of(job, key)
        runner = self.begun.get((self.keys.claim(job), attempt.number)) if attempt is not None else None
        if runner is None or runner[0] != instance:
            raise ViolationError(f"I9 {instance} writes {key}, which is not its own")

    def verdict(self, holding: Holding, verdict: Verdict) -> None:
        """Somebody gives a lease up as lost (E1), or takes a job for done by its own hand (I2)."""
        if verdict is Verdict.COMPLETED:
            self._verdict_completed(holding)
            return
        there = self.lease(holding.key)
        mine = (holding.owner, holding.body.attempt)
        its_own = there is not None and (there.owner, there.attempt) == mine and holding.sent(there.nonce)
        if there is not None and its_own and there.state in (State.RUNNING, State.DONE):
            raise ViolationError(f"E1 {holding.owner.worker} gives {holding.key} up, which is its own")

    def _verdict_completed(self, holding: Holding) -> None:
        if (holding.key, holding.owner, holding.body.attempt) not in self._done_by:
            there = self.lease(holding.key)
            raise ViolationError(f"I2 {holding.owner.worker} takes {holding.key} for done by itself: {_who(there)}")

    def _place(self, key: str) -> list[dict[str, Listed]]:
        ends = [number + 1 for number, letter in enumerate(key) if letter == "/"]
        self._folders[key] = [self._listed.setdefault(key[:end], {}) for end in ends]
        return self._folders[key]

    # ---- invariants, as writes apply -------------------------------------------------------------------------------
    def _check(self, key: str, there: Stored | None, new: Lease) -> None:
        old = there.lease if there else None
        if "/slots/" in key and int(key.rsplit("/", 1)[1]) >= self.slots:
            raise ViolationError(f"I4 {key} is beyond the API's {self.slots} slots")
        if old is not None and old.state is State.DONE:
            if new.generation != old.generation + 1:
                raise ViolationError(f"I2 {key}: done by {_who(old)}, then {_who(new)}")
            self.attempts[key] = max(self.attempts.get(key, 0), new.attempt)
            return
        same = old is not None and (old.owner, old.attempt) == (new.owner, new.attempt)
        if same and old is not None and old.state is not State.RUNNING:
            raise ViolationError(f"F2 {key}: {_who(old)} comes back as {_who(new)}")
        if not same:
            self._check_change(key, there, old, new)
        if new.state is State.DONE:
            self._check_done(key, new, same)
        if new.state is not State.RUNNING:
            for holding, alive in self.holdings.get(key, ()):
                if alive() and holding.held and new.state is not State.DONE:
                    raise ViolationError(f"I1 {holding.owner.worker} still believes in {key}, which is {_who(new)}")

    def _check_change(self, key: str, there: Stored | None, old: Lease | None, new: Lease) -> None:
        restored = new.state is State.DONE and old is None
        if new.attempt <= self.attempts.get(key, 0) and not restored:
            raise ViolationError(f"F2 {key}: attempt {new.attempt} is used again by {new.owner.worker}")
        self.attempts[key] = max(self.attempts.get(key, 0), new.attempt)
        self.begun.setdefault((key, new.attempt), (new.owner.instance, self.world.now))
        if there is not None and old is not None and old.state is State.RUNNING:
            age = self.world.now - there.written
            if age < old.lease_seconds and old.owner.instance != new.owner.instance:  # its own host knows better (F14)
                raise ViolationError(f"I1 {key} is taken from {_who(old)} by {new.owner.worker} after {age:.1f} s")
        for holding, alive in self.holdings.get(key, ()):
            if holding.owner != new.owner and alive() and holding.held:
                raise ViolationError(f"I1 {key} is taken by {_who(new)} while {holding.owner.worker} may act")

    def _check_done(self, key: str, new: Lease, same: bool) -> None:
        before = self.completions.get((key, new.generation))
        if before is not None and before.completion != new.completion:
            raise ViolationError(f"I2 {key}: completed a second time, by {_who(new)} after {_who(before)}")
        restored = before or self._eaten.get((key, new.generation))
        if not same and (restored is None or restored.completion != new.completion):
            raise ViolationError(f"I2 {key}: completed by {_who(new)}, which is not its owner")
        completion = new.completion or Completion(outcome=rules.Outcome.FAILED)
        without = completion.summary is None and completion.outcome in WITHOUT_SUMMARY
        if completion.summary not in self.objects and not without:
            raise ViolationError(f"I3 {key}: done without its summary")
        for record in completion.records:
            if record.key not in self.objects or self.objects[record.key].etag != record.etag:
                raise ViolationError(f"I3 {key}: done with a record that is not there, {record.key}")
        self.completions[key, new.generation] = new
        self.on_done(key, new)
        self._done_by.add((key, new.owner, new.attempt))


def _lease(body: bytes) -> Lease:
    try:
        return rules._decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ViolationError(f"F1 this is no lease: {body!r}") from error


def _who(lease: Lease | None) -> str:
    if lease is None:
        return "nobody's"
    return f"{lease.owner.worker}'s g{lease.generation} attempt {lease.attempt} {lease.state}"


def _short(body: bytes) -> str:
    try:
        return _who(_lease(body))
    except ViolationError:
        return f"{len(body)} bytes"
