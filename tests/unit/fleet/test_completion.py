"""The index of finished jobs, and claims that are gone (F2, F7)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from longhaul.fleet import completion
from longhaul.fleet.holding import Verdict
from longhaul.fleet.keys import Attempt, QueueKeys
from longhaul.fleet.lease import Completion, Lease, Outcome, Record, Seen, State
from longhaul.fleet.runtime import Runtime
from tests.unit.fleet.memory import OTHER, TERMS, MemoryStore, body, put_lease

QUEUE = QueueKeys("q")
CLAIM, INDEX = QUEUE.claim("job"), QUEUE.index("job")
SUMMARY = QUEUE.attempt("job", Attempt(generation=0, number=2)) + "job-summary.json"
END = Completion(
    outcome=Outcome.SUCCESS, exit_code=0, summary=SUMMARY, records=(Record(key="r", etag="e"),), lost_slots=("0",)
)
DONE = replace(body(OTHER, attempt=2), state=State.DONE, completion=END)


def stand(store: MemoryStore, lease: Lease = DONE) -> Seen:
    """Let the claim stand there."""
    put_lease(store, CLAIM, lease)
    now = store.seen(CLAIM)
    assert now is not None
    return now


def index(store: MemoryStore) -> completion.Index:
    """The one that stands there."""
    there = completion.read_index(store, QUEUE, "job")
    assert there is not None
    assert there.index is not None
    return there.index


def test_the_index_is_repaired(store: MemoryStore) -> None:
    """F7, S40, S70: missing, unreadable or of another version; when it is right nothing is written."""
    now = stand(store)
    assert completion.repair_index(store, QUEUE, "job", now)
    assert index(store).completion == END
    store.requests.clear()
    assert completion.repair_index(store, QUEUE, "job", now)
    assert store.requests == [f"GET {INDEX}"]
    store.store(INDEX, b"no index")
    assert completion.repair_index(store, QUEUE, "job", now)
    assert completion.agrees(index(store), now)
    now = stand(store, replace(DONE, nonce="restored"))
    assert not completion.agrees(index(store), now)
    assert completion.repair_index(store, QUEUE, "job", now)
    assert completion.agrees(index(store), now)


def test_only_a_finished_job_is_indexed(store: MemoryStore) -> None:
    """F7."""
    assert not completion.repair_index(store, QUEUE, "job", stand(store, body(OTHER)))
    assert INDEX not in store.objects
    with pytest.raises(ValueError, match="not done"):
        completion.index_of(body(OTHER), "e")


def test_of_two_repairs_at_once_one_writes(store: MemoryStore) -> None:
    """I8: also the index is written conditionally."""
    now = stand(store)

    def trouble(verb: str, key: str) -> None:
        if verb == "PUT":
            store.store(INDEX, b"the other's")

    store.trouble = trouble
    assert not completion.repair_index(store, QUEUE, "job", now)
    assert store.objects[INDEX][0] == b"the other's"


def test_an_index_is_believed_only_of_the_version_it_names(store: MemoryStore) -> None:
    """F7, S70: not after a requeue, not of another generation, not without a claim."""
    now = stand(store)
    right = completion.index_of(DONE, now.etag)
    assert completion.agrees(right, now)
    assert not completion.agrees(right, None)
    assert not completion.agrees(replace(right, claim_etag="other"), now)
    assert not completion.agrees(replace(right, generation=1), now)
    requeued = replace(body(OTHER, State.RELEASED, attempt=2), generation=1)
    assert not completion.agrees(right, stand(store, requeued))
    assert not completion.agrees(right, replace(now, lease=None))


def remains(store: MemoryStore) -> completion.Remains:
    """Of the job, after its claim was eaten."""
    now = stand(store)
    completion.repair_index(store, QUEUE, "job", now)
    del store.objects[CLAIM]
    return completion.remains(store, QUEUE, "job")


def test_nothing_remains_of_a_new_job(store: MemoryStore) -> None:
    """F2."""
    assert completion.remains(store, QUEUE, "job") == completion.Remains(generation=0, last_attempt=0, index=None)


def test_an_end_whose_summary_is_gone_is_not_restored(store: MemoryStore) -> None:
    """I3, S56: but its attempt is not used again."""
    left = remains(store)
    assert left.index is None
    assert left.last_attempt == 2


def test_an_end_is_believed_with_its_summary(store: MemoryStore) -> None:
    """F2."""
    store.store(SUMMARY, b"{}")
    left = remains(store)
    assert left.index is not None
    assert left.index.completion == END


def test_an_index_is_looked_for_where_there_may_be_one(store: MemoryStore) -> None:
    """F2, F7: a listing saw it, or somebody left results since that listing. Of all other jobs there is none."""
    store.store(SUMMARY, b"{}")
    left = remains(store)
    assert completion.remains(store, QUEUE, "job", indexed=False) == left
    del store.objects[SUMMARY]
    assert completion.remains(store, QUEUE, "job", indexed=True).last_attempt == 2
    store.requests.clear()
    assert completion.remains(store, QUEUE, "job", indexed=False).last_attempt == 0
    assert store.requests == [f"LIST {QUEUE.results('job')}"]


def test_a_stale_index_is_not_restored(store: MemoryStore) -> None:
    """S70: the job was requeued and ran since."""
    store.store(SUMMARY, b"{}")
    store.store(QUEUE.attempt("job", Attempt(generation=1, number=3)) + "events.jsonl", b"")
    left = remains(store)
    assert left.index is None
    assert (left.generation, left.last_attempt) == (1, 3)


def test_an_end_is_restored_once(store: MemoryStore, runtime: Runtime) -> None:
    """F2: the second finds the claim there."""
    end = completion.index_of(DONE, "eaten")
    assert completion.restore(store, QUEUE, "job", end, runtime, TERMS) is Verdict.COMPLETED
    before = store.objects[CLAIM]
    assert completion.restore(store, QUEUE, "job", end, runtime, TERMS) is Verdict.LOST
    assert store.objects[CLAIM] == before
