"""Workers on real threads share a queue on a real S3: everything of the fleet that stands, at once."""

from __future__ import annotations

import threading
import time
from collections import Counter

from longhaul.fleet import completion, keys, lease
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Verdict, keep
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Outcome, Owner, State, Terms
from longhaul.fleet.listing import Scanner
from longhaul.fleet.runtime import real
from longhaul.fleet.slots import Shortage, Slots
from longhaul.fleet.store import S3Store
from longhaul.fleet.taking import Job, Taken, Taker, candidates

WORKERS, SLOTS, SECONDS = 4, 2, 60
QUEUE = QueueKeys("q")
JOBS = [Job(id=f"job-{number}", api_weight=2 if number == 0 else 1) for number in range(6)]
TERMS = Terms(lease_seconds=5, margin_seconds=1, grace_seconds=2, renew_seconds=0.3)


def test_every_job_is_done_once(store: S3Store) -> None:
    """L1, I1, I2, I4: four workers, six jobs, two slots; the first dies with the heavy one in hand."""
    runs: Counter[str] = Counter()
    working: list[str] = []
    most: list[int] = []
    errors: list[BaseException] = []
    end = time.monotonic() + SECONDS

    def work(number: int) -> None:
        runtime, owner = real(), Owner(instance=f"i-{number}", worker=f"w{number}")
        slots = Slots(count=SLOTS, owner=owner, store=store, runtime=runtime, terms=TERMS)
        taker = Taker(keys=QUEUE, slots=slots, owner=owner, store=store, runtime=runtime, terms=TERMS)
        scanner = Scanner(keys=QUEUE, store=store, runtime=runtime, terms=TERMS)
        while time.monotonic() < end:
            scan = scanner.scan()
            if all(scan.done(job.id) for job in JOBS):
                return
            for job in candidates((job for job in JOBS if scan.takeable(job.id, TERMS)), runtime.fraction):
                taken = taker.take(job)
                if isinstance(taken, Taken):
                    if number == 0:
                        return  # as a host does that vanishes: nothing is given back
                    _run(taken, slots)
                    break
                if isinstance(taken, Shortage):
                    break
            time.sleep(runtime.jittered(0.2))

    def _run(taken: Taken, slots: Slots) -> None:
        for holding in (taken.claim, *taken.slots):
            threading.Thread(target=keep, args=(holding, real(), TERMS), daemon=True).start()
        working.extend([taken.job.id] * taken.job.api_weight)
        most.append(len(working))
        time.sleep(0.5)
        for _ in range(taken.job.api_weight):
            working.remove(taken.job.id)
        if taken.claim.complete(Completion(outcome=Outcome.SUCCESS, exit_code=0)) is Verdict.COMPLETED:
            runs[taken.job.id] += 1
            now = lease.seen(store.get(QUEUE.claim(taken.job.id)))
            assert now is not None
            completion.repair_index(store, QUEUE, taken.job.id, now)
        slots.give_back(taken.slots)

    def guarded(number: int) -> None:
        try:
            work(number)
        except (AssertionError, UnansweredError, ValueError, KeyError) as error:
            errors.append(error)

    guarded(0)
    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(1, WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 10)
    assert not errors
    assert runs == Counter({job.id: 1 for job in JOBS})
    assert max(most) <= SLOTS
    ends = {job.id: lease.seen(store.get(QUEUE.claim(job.id))) for job in JOBS}
    for job in JOBS:
        now = ends[job.id]
        assert now is not None
        assert now.lease is not None
        assert now.lease.state is State.DONE
        assert now.lease.attempt >= (2 if job == JOBS[0] else 1)
        indexed = completion.read_index(store, QUEUE, job.id)
        assert indexed is not None
        assert indexed.index is not None
        assert completion.agrees(indexed.index, ends[job.id])
    for number in range(SLOTS):
        slot = lease.seen(store.get(keys.slot(number)))
        assert slot is not None
        assert slot.lease is not None
        assert slot.lease.state is State.RELEASED
