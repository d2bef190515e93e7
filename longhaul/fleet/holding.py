"""One lease as its holder has it: taken, renewed, completed or given back, whatever S3 answers (F3, F4)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from enum import Enum

from msgspec.structs import replace

from longhaul.fleet import lease as rules
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.lease import Completion, Fate, Lease, Owner, Seen, State, Terms
from longhaul.fleet.objects import Store
from longhaul.fleet.runtime import Event, Runtime

logger = logging.getLogger(__name__)

TAKE_SECONDS = 30.0  # after which an acquisition that nobody answers is given up (F3)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0  # between tries; botocore retries 5xx once, and no 409


class Verdict(Enum):
    """Of a write to a lease."""

    STANDS = "the write stands"
    COMPLETED = "the claim is done, by this attempt"
    LOST = "the lease is not this holder's, for good"
    UNRESOLVED = "nobody knows, and the time is up: the write may still land"


class Holding:
    """A lease and its one holder, for one attempt. Its threads share it; writes go one at a time (S54).

    `held` and `deadline` can be read at any time, also while a write hangs (S32). Whoever ends the lease makes a
    renewal in progress give way at its next step, so it waits for one request at most (S37).
    """

    def __init__(
        self,
        key: str,
        owner: Owner,
        store: Store,
        runtime: Runtime,
        terms: Terms,
        on_deadline: Callable[[float], None] | None = None,
    ) -> None:
        self.key, self.owner = key, owner
        self._deadline, self._on_deadline = -math.inf, on_deadline
        self._given_back = False
        self._store, self._runtime, self._terms = store, runtime, terms
        self._lock = runtime.lock()
        self._body: Lease | None = None  # the last one sent, whether it stands or not
        self.stood: tuple[Lease, str] | None = None  # the last one known to have been carried out, and its ETag
        self._replaces: str | None = None  # ETag that the next write demands, None for creation
        self._sent: set[str] = set()  # nonces of what may stand there, or land
        self._over = False  # lost or completed: nothing that this holder sent can land any more
        self.ending = False  # set by whoever completes it or gives it back

    @property
    def deadline(self) -> float:
        """By this host's clock; whatever the lease allows has stopped by then (F4). A listener hears of each change."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        if deadline != self._deadline:
            self._deadline = deadline
            if self._on_deadline is not None:
                self._on_deadline(deadline)

    @property
    def held(self) -> bool:
        """Whether this holder may still act."""
        return self._runtime.clock() < self._deadline

    @property
    def wanted(self) -> bool:
        """Whether it should still be renewed: it is held and nobody has begun to end it."""
        return not self.ending and self.held

    @property
    def body(self) -> Lease:
        """As last sent. Only of a lease that was sought: before, an error."""
        if self._body is None:
            raise ValueError(f"{self.key} was not sought")
        return self._body

    def take(self, now: Seen | None, *, last_attempt: int = 0, generation: int = 0, barren: int = 0) -> Verdict:
        """Take a lease that was seen to be takeable (F2); anything else is lost at once. Gives up after 30 s."""
        if not rules.takeable(now, self._terms, self.owner):
            return Verdict.LOST
        body = rules.taken(
            now.lease if now else None,
            self.owner,
            self._terms,
            nonce=self._runtime.token(),
            wall=self._runtime.wall(),
            last_attempt=last_attempt,
            generation=generation,
            barren=barren,
        )
        until = self._runtime.clock() + TAKE_SECONDS
        if not self._enter(until):
            return Verdict.UNRESOLVED
        try:
            self._replaces = now.etag if now else None
            return self._write(body, until)
        finally:
            self._lock.release()

    def adopt(self, now: Seen) -> None:
        """Know a running lease as this owner's that it does not hold, so that `end` can give it back (F14, S46)."""
        if now.lease is None or now.lease.owner != self.owner:
            raise ValueError(f"{self.key} is not this owner's")
        self._body, self._replaces = now.lease, now.etag
        self._sent = {now.lease.nonce}

    def sent(self, nonce: str) -> bool:
        """Whether a body with that nonce is of this holder, as far as it may stand there."""
        return nonce in self._sent

    def forsake(self) -> None:
        """Act on it no more, nor renew it, and leave it to expire: something that cannot be stopped may use it."""
        self.ending = self._given_back = True
        self.deadline = -math.inf

    def renew(self) -> Verdict:
        """Make it last a lease from now (F5); tried until the deadline."""
        if not self._enter(self.deadline):
            return Verdict.UNRESOLVED
        try:
            if not self.wanted:
                return Verdict.LOST
            return self._write(self._next(), self.deadline, gives_way=True)
        finally:
            self._lock.release()

    def complete(self, completion: Completion) -> Verdict:
        """Move the claim to done: fenced, once, by its holder alone (F7). Tried until the deadline.

        UNRESOLVED: it may become done later, and then it is rightly so. `end` afterwards never undoes it (S63).
        """
        return self._finish(State.DONE, completion, self.deadline)

    def end(self, state: State, until: float) -> Verdict:
        """Give it back by overwriting it, never by deleting it (F6, S24).

        That also reaches a write of this attempt that landed unknown to its holder (S34, S46), and keeps one that may
        still be in flight from landing. `until` is by this host's clock; what could not be given back expires.
        """
        return self._finish(state, None, until)

    def _enter(self, until: float) -> bool:
        return self._lock.acquire(timeout=max(0.0, until - self._runtime.clock()))

    def _finish(self, state: State, completion: Completion | None, until: float) -> Verdict:
        if self._body is None:
            return Verdict.LOST
        self.ending = True
        if state is not State.DONE:
            self._given_back = True
            self.deadline = -math.inf  # before the first byte leaves: others may have it from then on
        if not self._enter(until):
            return Verdict.UNRESOLVED
        try:
            if self._over or (state is State.DONE and not self.held):
                return Verdict.LOST
            self.deadline = -math.inf  # also once it is done: a requeue may come sooner than the answer
            body = replace(self._next(), state=state, completion=completion)
            verdict = self._write(body, until)
            if verdict is not Verdict.UNRESOLVED:
                self.deadline, self._over = -math.inf, True
            return verdict
        finally:
            self._lock.release()

    def _next(self) -> Lease:
        return rules.renewed(self.body, nonce=self._runtime.token(), wall=self._runtime.wall())

    def _write(self, body: Lease, until: float, *, gives_way: bool = False) -> Verdict:
        """Write over what is known to stand there, until it is known what became of it (F3)."""
        self._body = body
        first_sent = self._runtime.clock()
        pause = FIRST_PAUSE_SECONDS
        send, told = True, False
        while True:
            now, became = None, None
            try:
                if send:
                    self._sent.add(body.nonce)
                    etag = self._store.put(self.key, rules.encode(body), replaces=self._replaces)
                    if etag is not None:
                        return self._stands(body, etag, first_sent)
                send = False
                now = rules.seen(self._store.get(self.key))
                became = rules.fate(body, self._replaces, now, self._sent)
            except UnansweredError as error:  # an expired token or a refusal of permission too: it may pass (S77)
                if not told:
                    logger.warning("%s is tried again for %.0f s: %s", self.key, until - self._runtime.clock(), error)
                told = True
            if became is Fate.STANDS and now is not None:
                return self._stands(body, now.etag, first_sent)
            if became is Fate.COMPLETED or became is Fate.LOST:
                self.deadline, self._over = -math.inf, True
                return Verdict.COMPLETED if became is Fate.COMPLETED else Verdict.LOST
            if became is Fate.OVERTAKEN and now is not None:
                # other bytes, so the deadline counts from their first request
                body = self._body = replace(body, nonce=self._runtime.token())
                self._replaces = now.etag
                first_sent = self._runtime.clock()
            if self._runtime.clock() >= until or (gives_way and self.ending):
                return Verdict.UNRESOLVED  # what is to be replaced stays known: whatever lands, `fate` tells
            send = became is Fate.OPEN or became is Fate.OVERTAKEN
            self._runtime.sleep(self._runtime.jittered(pause))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _stands(self, body: Lease, etag: str, first_sent: float) -> Verdict:
        self._replaces, self.stood = etag, (body, etag)
        self._sent = {body.nonce}  # nothing sent before can land any more
        if body.state is State.RUNNING and not self.ending:
            self.deadline = self._terms.deadline(first_sent)
            if self._given_back:  # between those two lines, by another thread
                self.deadline = -math.inf
        return Verdict.COMPLETED if body.state is State.DONE else Verdict.STANDS


def keep(holding: Holding, runtime: Runtime, terms: Terms, stop: Event | None = None) -> Verdict:
    """Renew a lease on its own schedule until it is lost, expired, being ended, or `stop` is set: a thread's work (F5).

    The verdict is LOST if others may have it, STANDS if it was ended here.
    """
    stop = stop or runtime.event()
    while holding.wanted and not stop.wait(terms.renew_seconds):
        if holding.wanted and holding.renew() in (Verdict.LOST, Verdict.COMPLETED):
            break
    return Verdict.STANDS if holding.ending or stop.is_set() else Verdict.LOST
