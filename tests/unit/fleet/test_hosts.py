"""Records of hosts (F9)."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.hosts import HostRecords, StoredHost, StoredQuarantine, stored
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.machine import Identity, Lifecycle
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.surroundings import Doing, HostRecord
from longhaul.fleet.work import Unconfirmed
from tests.unit.fleet.memory import EPOCH, MemoryStore

KEY = "fleet/q/hosts/i-1.json"
IDENTITY = Identity(instance="i-1", lifecycle=Lifecycle.SPOT, instance_type="m7i.large", zone="us-west-2b")


def record(doing: Doing = Doing.IDLE, **said: object) -> HostRecord:
    """What a worker says."""
    return replace(HostRecord(worker="w", doing=doing, started=EPOCH), **said)  # type: ignore[arg-type]


@pytest.fixture
def ticking(runtime: Runtime) -> Runtime:
    """A wall clock that goes on a minute at each look."""
    minutes = itertools.count()
    return replace(runtime, wall=lambda: EPOCH + timedelta(minutes=next(minutes)))


def hosts(store: MemoryStore, runtime: Runtime) -> HostRecords:
    """Of a worker that starts."""
    return HostRecords(store, QueueKeys("q"), IDENTITY, runtime, worker_version="1.0", directory="/opt/worker")


def there(store: MemoryStore) -> StoredHost:
    """What stands there."""
    found = stored(store.get(KEY))
    assert found is not None
    return found


def test_what_is_stored(store: MemoryStore, ticking: Runtime) -> None:
    """F9: what the worker does and what the host is."""
    unconfirmed = Unconfirmed(queries=("q1",), prefixes=("s3://b/t/",))
    hosts(store, ticking).write(record(Doing.QUARANTINED, job="a", quarantine=unconfirmed, why="w"))
    assert there(store) == StoredHost(
        instance="i-1",
        lifecycle="spot",
        instance_type="m7i.large",
        zone="us-west-2b",
        worker_version="1.0",
        directory="/opt/worker",
        worker="w",
        doing=Doing.QUARANTINED,
        since=EPOCH,
        written=EPOCH,
        started=EPOCH,
        job="a",
        quarantine=StoredQuarantine(queries=("q1",), prefixes=("s3://b/t/",)),
        why="w",
    )


def test_since_when_it_does_that(store: MemoryStore, ticking: Runtime) -> None:
    """S69: also across restarts, or a host in quarantine would look young for ever."""
    one = hosts(store, ticking)
    for doing in (Doing.IDLE, Doing.QUARANTINED, Doing.QUARANTINED):
        one.write(record(doing))
    began = there(store).since
    assert began == EPOCH + timedelta(minutes=1)
    hosts(store, ticking).write(record(Doing.QUARANTINED))
    assert there(store).since == began
    assert there(store).written == EPOCH + timedelta(minutes=3)
    hosts(store, ticking).write(record(Doing.IDLE))
    assert there(store).since == EPOCH + timedelta(minutes=4)


@pytest.mark.parametrize("trouble", ["lost", "deaf", "409"])
def test_trouble_once_is_mended_by_the_next_record(store: MemoryStore, ticking: Runtime, trouble: str) -> None:
    """S49: a record that nobody answered may stand; the next one goes over whatever stands."""
    one = hosts(store, ticking)
    one.write(record())
    troubles = [trouble]
    store.trouble = lambda verb, key: troubles.pop() if verb == "PUT" and troubles else None
    if trouble == "409":
        one.write(record(Doing.RUNNING))
    else:
        with pytest.raises(UnansweredError):
            one.write(record(Doing.RUNNING))
    one.write(record(Doing.RUNNING, job="b"))
    assert there(store).job == "b"


def test_records_are_written_in_the_order_in_which_they_came(store: MemoryStore, ticking: Runtime) -> None:
    """F9: one that hangs is not overtaken, and then lands over a newer one."""
    one = hosts(store, ticking)
    hangs, go_on = threading.Event(), threading.Event()

    def trouble(verb: str, key: str) -> None:
        if verb == "PUT" and not hangs.is_set():
            hangs.set()
            assert go_on.wait(20)

    store.trouble = trouble
    first = threading.Thread(target=one.write, args=(record(Doing.IDLE),))
    second = threading.Thread(target=one.write, args=(record(Doing.RUNNING),))
    first.start()
    assert hangs.wait(20)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join(20)
    second.join(20)
    assert there(store).doing is Doing.RUNNING


def test_a_store_that_refuses_for_ever(store: MemoryStore, ticking: Runtime) -> None:
    """L4: is given up."""
    store.trouble = lambda verb, key: "409" if verb == "PUT" else None
    with pytest.raises(UnansweredError, match="again and again"):
        hosts(store, ticking).write(record())
    assert len(store.requests) < 10


def test_a_record_of_another_version(store: MemoryStore, ticking: Runtime) -> None:
    """It is none, and is written over."""
    store.store(KEY, b'{"schema": 2}')
    assert stored(store.get(KEY)) is None
    hosts(store, ticking).write(record())
    assert there(store).worker == "w"
