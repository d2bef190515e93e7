"""What every store of the fleet must do (F2, F3, F4, F8); case-Q06: one that ignores conditions fails here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.fleet import lease
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.lease import Completion, Outcome, Owner, State, Terms
from longhaul.fleet.runtime import real
from longhaul.fleet.store import CONFIG, READ_SECONDS, S3Store
from tests.contract.store.faults import Faults

THREADS = 16
TERMS = Terms.of(60)


def test_what_was_written_is_read(store: S3Store) -> None:
    """F4: with ETag, LastModified and Date of the server, in whole seconds."""
    assert store.get("a") is None
    etag = store.put("a", b"one", replaces=None)
    found = store.get("a")
    assert found is not None
    assert found.body == b"one"
    assert found.etag == etag
    assert '"' not in found.etag
    assert found.modified.tzinfo is not None
    assert found.date.microsecond == found.modified.microsecond == 0
    assert timedelta(seconds=-1) <= found.date - found.modified <= timedelta(seconds=30)


def test_conditions(store: S3Store) -> None:
    """F2: only over what is known to be there."""
    first = store.put("a", b"one", replaces=None)
    assert first is not None
    assert store.put("a", b"two", replaces=None) is None
    assert store.put("a", b"two", replaces="0" * 32) is None
    second = store.put("a", b"two", replaces=first)
    assert second not in (None, first)
    assert store.put("a", b"three", replaces=first) is None
    assert store.put("b", b"three", replaces=first) is None, "there is nothing to replace"
    assert store.get("b") is None
    found = store.get("a")
    assert found is not None
    assert found.body == b"two"


def test_listing(client: Any, store: S3Store) -> None:
    """F8: every page, keys below the location, ETags as a GET has them; order is not promised."""
    etags = {f"claims/j{number}": store.put(f"claims/j{number}", b"%d" % number, replaces=None) for number in range(7)}
    store.put("done/j0", b"x", replaces=None)

    def in_threes(params: dict[str, Any], **named: Any) -> None:
        params["MaxKeys"] = 3

    for pages in (1, 3):
        listing = store.list("claims/")
        assert {listed.key: listed.etag for listed in listing.objects} == etags
        assert listing.pages == pages
        assert listing.date.tzinfo is not None
        client.meta.events.register("before-parameter-build.s3.ListObjectsV2", in_threes)
    client.meta.events.unregister("before-parameter-build.s3.ListObjectsV2", in_threes)
    assert not store.list("nothing/").objects


def test_a_location_ends_with_a_slash(client: Any) -> None:
    """I9: or keys would land beside it."""
    with pytest.raises(ValueError, match="slash"):
        S3Store(client, "fleet", "stack")


@pytest.mark.parametrize("kind", ["create", "replace"])
def test_of_many_that_write_at_once_one_wins(store: S3Store, kind: str) -> None:
    """S51, case-Q06: and its bytes are the ones that stand there."""
    barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        for turn in range(2):
            key = f"{kind}/{turn}"
            etag = store.put(key, b"first", replaces=None) if kind == "replace" else None

            def write(number: int, key: str = key, etag: str | None = etag) -> str | None:
                barrier.wait(30)
                return store.put(key, b"by %d" % number, replaces=etag)

            won = [(number, new) for number, new in enumerate(pool.map(write, range(THREADS))) if new is not None]
            found = store.get(key)
            assert found is not None
            assert [(number, new) for number, new in won] == [(int(found.body.split()[1]), found.etag)]


def holding(store: S3Store, name: str = "me") -> Holding:
    """A worker's hold on a claim."""
    runtime = replace(real(), sleep=lambda seconds: time.sleep(seconds / 10))
    return Holding("claim", Owner(instance="i", worker=name), store, runtime, TERMS)


def test_many_workers_take_one_lease(store: S3Store) -> None:
    """I1: one of sixteen gets it, again and again, each time with an attempt of its own."""
    barrier = threading.Barrier(THREADS)

    def take(number: int) -> Holding | None:
        mine = holding(store, f"w{number}")
        now = lease.seen(store.get("claim"))
        barrier.wait(30)
        return mine if mine.take(now) is Verdict.STANDS else None

    with ThreadPoolExecutor(THREADS) as pool:
        for turn in range(2):
            winners = [one for one in pool.map(take, range(THREADS)) if one is not None]
            assert len(winners) == 1
            assert winners[0].body.attempt == turn + 1
            assert winners[0].end(State.RELEASED, real().clock() + 20) is Verdict.STANDS


APPLIED = ["reset after it was carried out", "time-out after it was carried out", "500 after it was carried out"]


@pytest.mark.parametrize("fault", [*APPLIED, "lost", "503", "409", "stalled"])
def test_a_write_is_known_whatever_happens_to_it(inject: Callable[..., Faults], store: S3Store, fault: str) -> None:
    """F3, S49, case-Q02: create, renew, complete; botocore's retry of a write that stands is answered 412."""
    mine = holding(store)
    faults = inject(fault)
    assert mine.take(None) is Verdict.STANDS
    faults.faults = [fault]
    assert mine.renew() is Verdict.STANDS
    faults.faults = [fault]
    done = Completion(outcome=Outcome.SUCCESS)
    assert mine.complete(done) is Verdict.COMPLETED
    now = lease.seen(store.get("claim"))
    assert now is not None
    assert now.lease is not None
    assert (now.lease.attempt, now.lease.completion) == (1, done)


@pytest.mark.parametrize("fault", APPLIED)
def test_a_retried_write_that_stands_is_refused(inject: Callable[..., Faults], store: S3Store, fault: str) -> None:
    """S49: that is why a refusal is never believed."""
    faults = inject(fault)
    assert store.put("a", b"mine", replaces=None) is None
    assert faults.attempts == 2
    found = store.get("a")
    assert found is not None
    assert found.body == b"mine"


@pytest.mark.parametrize(
    "faults",
    [
        ("503", "503"),
        ("lost", "lost"),
        ("time-out after it was carried out", "503"),
        ("403 ExpiredToken",),
        ("403 RequestTimeTooSkewed",),
        ("403 AccessDenied",),
        ("404 NoSuchBucket",),
    ],
)
def test_nobody_knows(inject: Callable[..., Faults], store: S3Store, faults: tuple[str, ...]) -> None:
    """F3, S13, S77: two tries at most, then no answer; a 403 or a missing bucket is not a missing object."""
    injected = inject()
    for ask in (
        lambda: store.put("a", b"x", replaces=None),
        lambda: store.get("a"),
        lambda: store.list("a"),
    ):
        injected.attempts, injected.faults = 0, list(faults)
        with pytest.raises(UnansweredError):
            ask()
        assert injected.attempts == len(faults)


def test_half_an_answer_is_none(inject: Callable[..., Faults], store: S3Store) -> None:
    """S14: an error that is neither an OSError nor one of botocore's usual ones."""
    inject("no XML", "no XML")
    with pytest.raises(UnansweredError):
        store.list("a")


def test_the_lease_client_has_short_time_outs() -> None:
    """F8: 3 s to connect, 5 s to read, two tries."""
    assert (CONFIG.connect_timeout, CONFIG.read_timeout) == (3, READ_SECONDS)
    assert CONFIG.retries == {"mode": "standard", "total_max_attempts": 2}
