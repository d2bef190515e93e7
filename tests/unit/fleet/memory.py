"""An S3 of a dozen lines, time that only moves when somebody sleeps, and owners."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.lease import Lease, Owner, Seen, State, Terms, encode, seen
from longhaul.fleet.objects import Found, Listed, Listing

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
ME, OTHER = Owner(instance="i-1", worker="me"), Owner(instance="i-2", worker="other")
TERMS = Terms.of(300)


class Clock:
    """Seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def sleep(self, seconds: float) -> None:
        """Let time go on."""
        self.now += seconds


class MemoryStore:
    """Objects in a dictionary. `trouble` is asked before each request, and may raise or return what to do after it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[str, tuple[bytes, str, float]] = {}
        self.requests: list[str] = []
        self.trouble: Callable[[str, str], str | None] = lambda verb, key: None
        self._etags = itertools.count(1)

    def _date(self) -> datetime:
        return EPOCH + timedelta(seconds=int(self.clock.now))

    def _ask(self, verb: str, key: str) -> str | None:
        self.requests.append(f"{verb} {key}")
        return self.trouble(verb, key)

    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        self._ask("GET", key)
        there = self.objects.get(key)
        if there is None:
            return None
        modified = EPOCH + timedelta(seconds=int(there[2]))
        return Found(body=there[0], etag=there[1], modified=modified, date=self._date())

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`. Trouble `lost`: it is not carried out; `deaf`: it is, and nobody hears of it."""
        trouble = self._ask("PUT", key)
        there = self.objects.get(key)
        if trouble == "lost":
            raise UnansweredError(key)
        if trouble == "409" or (there[1] if there else None) != replaces:
            return None
        etag = self.store(key, body)
        if trouble == "deaf":
            raise UnansweredError(key)
        return etag

    def store(self, key: str, body: bytes) -> str:
        """Whatever was there."""
        etag = f"etag-{next(self._etags)}"
        self.objects[key] = (body, etag, self.clock.now)
        return etag

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        self._ask("LIST", prefix)
        listed = [
            Listed(key=key, etag=there[1], modified=EPOCH + timedelta(seconds=int(there[2])))
            for key, there in self.objects.items()
            if key.startswith(prefix)
        ]
        return Listing(objects=listed, date=self._date())

    def seen(self, key: str) -> Seen | None:
        """What stands there."""
        there = self.objects.get(key)
        if there is None:
            return None
        modified = EPOCH + timedelta(seconds=int(there[2]))
        return seen(Found(body=there[0], etag=there[1], modified=modified, date=self._date()))

    def lease(self, key: str) -> Lease:
        """The lease that stands there."""
        now = self.seen(key)
        assert now is not None
        assert now.lease is not None
        return now.lease


def body(
    owner: Owner = OTHER, state: State = State.RUNNING, *, attempt: int = 1, nonce: str = "n", seconds: float = 300
) -> Lease:
    """A lease of somebody."""
    return Lease(
        nonce=nonce,
        sequence=0,
        state=state,
        owner=owner,
        attempt=attempt,
        lease_seconds=seconds,
        renewed=EPOCH,
        expires=EPOCH,
    )


def put_lease(store: MemoryStore, key: str, lease: Lease) -> str:
    """Let a lease stand there; its ETag."""
    return store.store(key, encode(lease))
