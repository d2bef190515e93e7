"""A look at the queue that fetches only what changed (F8)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from longhaul.fleet import completion
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Outcome, State
from longhaul.fleet.listing import Scanner
from longhaul.fleet.runtime import Runtime
from tests.unit.fleet.memory import ME, OTHER, TERMS, Clock, MemoryStore, body, put_lease

QUEUE = QueueKeys("q")
DONE = replace(body(OTHER), state=State.DONE, completion=Completion(outcome=Outcome.FAILED))


@pytest.fixture
def scanner(store: MemoryStore, runtime: Runtime) -> Scanner:
    """Of a queue with four claims: running, running, released, done."""
    put_lease(store, QUEUE.claim("a"), body(OTHER))
    put_lease(store, QUEUE.claim("b"), body(ME))
    put_lease(store, QUEUE.claim("c"), body(OTHER, State.RELEASED))
    put_lease(store, QUEUE.claim("d"), DONE)
    return Scanner(keys=QUEUE, store=store, runtime=runtime, terms=TERMS)


def gets(store: MemoryStore) -> list[str]:
    """Jobs that were fetched since the last call."""
    fetched = sorted(request.rsplit("/", 1)[1] for request in store.requests if request.startswith("GET"))
    assert sum(request.startswith("LIST") for request in store.requests) == 2
    store.requests.clear()
    return fetched


def test_only_what_changed_is_fetched(scanner: Scanner, store: MemoryStore, clock: Clock) -> None:
    """F8: and what may have expired, each time; nothing else, however old."""
    scan = scanner.scan()
    assert gets(store) == ["a", "b", "c", "d"]
    assert [job for job in "abcde" if scan.takeable(job, TERMS)] == ["c", "e"]
    assert [job for job in "abcde" if scan.done(job)] == ["d"]
    clock.sleep(200)
    put_lease(store, QUEUE.claim("b"), body(ME, nonce="renewed"))
    scanner.scan()
    assert gets(store) == ["b"]
    clock.sleep(110)
    scan = scanner.scan()
    assert gets(store) == ["a"]
    assert [job for job in "abcde" if scan.takeable(job, TERMS)] == ["a", "c", "e"]


def test_a_job_that_runs_again_is_not_done(scanner: Scanner, store: MemoryStore) -> None:
    """F25: requeued since the last look; nothing is remembered of its end, nor of an open claim that is done now."""
    scan = scanner.scan()
    assert "d" in scan.finished
    assert set(scan.claims) == {"a", "b", "c"}
    put_lease(store, QUEUE.claim("d"), replace(body(OTHER, State.RELEASED), generation=1))
    put_lease(store, QUEUE.claim("a"), replace(DONE, nonce="a"))
    scan = scanner.scan()
    assert scan.finished == {"a"}
    assert set(scan.claims) == {"b", "c", "d"}
    assert [job for job in "abcde" if scan.takeable(job, TERMS)] == ["c", "d", "e"]


def test_a_job_that_ends_during_the_look_is_seen_with_its_index(scanner: Scanner, store: MemoryStore) -> None:
    """F8: or everybody who looks meanwhile would go and repair it."""

    def trouble(verb: str, key: str) -> None:
        if key == QUEUE.claim("a"):
            store.trouble = lambda verb, key: None
            put_lease(store, key, replace(DONE, nonce="a"))
            now = store.seen(key)
            assert now is not None
            completion.repair_index(store, QUEUE, "a", now)

    store.trouble = trouble
    scan = scanner.scan()
    assert scan.done("a")
    assert "a" in scan.indexed


def test_a_claim_that_is_gone_is_forgotten(scanner: Scanner, store: MemoryStore) -> None:
    """F2, S56."""
    scanner.scan()
    del store.objects[QUEUE.claim("d")]
    scan = scanner.scan()
    assert not scan.done("d")
    assert scan.takeable("d", TERMS)


def test_a_claim_that_could_not_be_read_is_not_takeable(scanner: Scanner, store: MemoryStore) -> None:
    """I8: no answer is not the same as no claim; the others can go on."""

    def trouble(verb: str, key: str) -> None:
        if key == QUEUE.claim("c"):
            raise UnansweredError

    store.trouble = trouble
    scan = scanner.scan()
    assert not scan.takeable("c", TERMS)
    assert scan.takeable("e", TERMS)
    store.trouble = lambda verb, key: None
    assert scanner.scan().takeable("c", TERMS)


def test_a_claim_that_goes_between_listing_and_reading_is_unknown(scanner: Scanner, store: MemoryStore) -> None:
    """I8."""

    def trouble(verb: str, key: str) -> None:
        if verb == "GET":
            store.objects.pop(QUEUE.claim("c"), None)

    store.trouble = trouble
    assert not scanner.scan().takeable("c", TERMS)


def test_without_a_listing_there_is_no_scan(scanner: Scanner, store: MemoryStore) -> None:
    """The caller waits for the next."""

    def trouble(verb: str, key: str) -> None:
        raise UnansweredError

    store.trouble = trouble
    with pytest.raises(UnansweredError):
        scanner.scan()


def test_the_index_is_shown_and_decides_nothing(scanner: Scanner, store: MemoryStore) -> None:
    """F7, S70."""
    now = store.seen(QUEUE.claim("d"))
    assert now is not None
    completion.repair_index(store, QUEUE, "d", now)
    put_lease(store, QUEUE.claim("d"), replace(body(OTHER, State.RELEASED), generation=1))
    scan = scanner.scan()
    assert list(scan.indexed) == ["d"]
    assert not scan.done("d")
    assert scan.takeable("d", TERMS)
