"""Many workers and many jobs: the real worker, with commands that only take their time."""

from __future__ import annotations

import dataclasses
import gc
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from longhaul.fleet.hosts import HostRecords
from longhaul.fleet.keys import Place, QueueKeys
from longhaul.fleet.lease import Record, State, Terms
from longhaul.fleet.machine import Identity, Notice
from longhaul.fleet.queue import QUEUE
from longhaul.fleet.surroundings import Published
from longhaul.fleet.taking import Job
from longhaul.fleet.work import Merged, Unconfirmed
from longhaul.fleet.worker import Worker
from perf.fleet.counting import CountedInstance, Counts
from perf.fleet.job import KEYS, LEASE_SECONDS
from tests.simulation.choices import Choices
from tests.simulation.server import Server
from tests.simulation.workers.instance import Journal, Program
from tests.simulation.workers.schedule import Documents
from tests.simulation.world import World

SUMMARY = "job-summary.json"
LOOK_SECONDS = 60.0  # at notices, which ask nothing of S3
SLICE_SECONDS = 1200.0  # of virtual time, after which it is seen whether all is done


class Chances(Choices):
    """Choices that nobody will repeat: none is remembered, or a large queue's would fill the memory."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.fraction = self._random

    def pick(self, options: int, likelihood: float) -> int:
        """See `Choices.pick`."""
        drawn = self.fraction()
        return 1 + int(drawn / likelihood * (options - 1)) if drawn < likelihood else 0


@dataclass
class Ran:
    """What a run came to."""

    jobs: int
    workers: int
    job_seconds: float
    seconds: float = 0.0  # until the last job was done
    counts: Counts = field(default_factory=Counts)  # in that time
    unmet: Counts = field(default_factory=Counts)  # of these: 404, and writes that were refused
    busiest: int = 0  # requests in one second
    cpu_seconds: float = 0.0
    peak_bytes: int = 0  # of memory, the counts before this one included


class Sleeper:
    """A `Process` that takes its time."""

    def __init__(self, world: World, seconds: float, on_exit: Callable[[], None]) -> None:
        self.exit_code: int | None = None
        self._on_exit = on_exit
        world.at(seconds, self._end)

    def _end(self) -> None:
        self.exit_code = 0
        self._on_exit()

    def interrupt(self) -> None:
        """See `Process.interrupt`."""

    def kill(self, until: float) -> bool:
        """See `Process.kill`."""
        del until
        return True


class Pretence:
    """`Work`, `Results`, `Machine` and `Notices` of a worker in one: nothing goes wrong."""

    def __init__(self, instance: CountedInstance, keys: QueueKeys, job_seconds: float, *, kept: bool) -> None:
        self._instance, self._world, self._keys = instance, instance.world, keys
        self._job_seconds, self._kept = job_seconds, kept
        self.identity = Identity(instance=instance.id)

    def run(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Sleeper:
        """See `Work.run`: half to one and a half times as long as told."""
        del place, earlier
        return Sleeper(self._world, self._job_seconds * (0.5 + self._instance.choices.pick(1000, 1.0) / 1000), on_exit)

    def quiesce(self, places: Sequence[Place], *, on_exit: Callable[[], None]) -> Sleeper:
        """See `Work.quiesce`."""
        del places
        return Sleeper(self._world, 1, on_exit)

    def report(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Sleeper:
        """See `Work.report`."""
        del place, earlier
        return Sleeper(self._world, 1, on_exit)

    def merged(self, place: Place) -> Merged:
        """See `Work.merged`."""
        del place
        return Merged(records=(), files=(SUMMARY,), failed=0)

    def unconfirmed(self, places: Sequence[Place]) -> Unconfirmed:
        """See `Work.unconfirmed`."""
        del places
        return Unconfirmed(queries=(), prefixes=())

    def tell_deadline(self, deadline: float) -> None:
        """See `Work.tell_deadline`."""

    def attempts(self, job: str, generations: range) -> Sequence[Place]:
        """See `Results.attempts`; counted with one job's transfers."""
        del job, generations
        return ()

    def download(self, place: Place) -> None:
        """See `Results.download`."""

    def upload(self, place: Place, names: Sequence[str] | None = None) -> Sequence[Record]:
        """See `Results.upload`."""
        for name in names or ():
            self._instance.server.upload(self._keys.attempt(place.job, place.attempt) + name, b"{}")
        return ()

    def measured(self, place: Place) -> bool:
        """See `Results.measured`."""
        del place
        return True

    def keep(self) -> bool:
        """See `Machine.keep`."""
        return self._kept

    def suspend_rebalancing(self) -> None:
        """See `Machine.suspend_rebalancing`."""

    def protect(self, busy: bool) -> None:
        """See `Machine.protect`."""

    def retire(self) -> bool:
        """See `Machine.retire`."""
        return True

    def release_hook(self) -> None:
        """See `Machine.release_hook`."""

    def check(self) -> Notice | None:
        """See `Notices.check`."""
        return None


def run(jobs: int, workers: int, job_seconds: float) -> Ran:
    """Work a queue off, each job on one worker and without slots: what coordinating them costs."""
    began = time.process_time()
    world = World()
    server = Server(world, KEYS, 1)
    ran = Ran(jobs=jobs, workers=workers, job_seconds=job_seconds)
    done: list[float] = []

    def finished(key: str, lease: object) -> None:
        done.append(world.now)
        if len(done) == jobs:
            ran.seconds, ran.counts, ran.unmet = world.now, Counts(counts), Counts(unmet)

    server.on_done = finished
    queue = tuple(Job(id=f"job-{number:05}", api_weight=0) for number in range(jobs))
    counts, unmet, seconds = Counts(), Counts(), Counter[int]()
    choices = Chances(1)
    server.upload(KEYS.document(QUEUE), msgspec.json.encode({}))
    for number in range(workers):
        instance = employ(world, server, choices, f"h{number}", queue, counts, job_seconds)
        instance.unmet, instance.seconds = unmet, seconds
    until = jobs / workers * job_seconds * 3 + 7200
    gc.disable()  # its passes over all that lives would take half of the time
    while len(done) < jobs and world.now < until:
        world.run(world.now + SLICE_SECONDS)
        gc.collect()
    gc.enable()
    if len(done) != jobs:
        raise RuntimeError(f"{len(done)} of {jobs} jobs are done")
    ran.busiest = max(seconds.values())
    ran.cpu_seconds = time.process_time() - began
    ran.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return ran


def employ(
    world: World,
    server: Server,
    choices: Chances,
    name: str,
    queue: tuple[Job, ...],
    counts: Counts,
    job_seconds: float,
    *,
    kept: bool = False,
) -> CountedInstance:
    """Start a worker on a host of its own; one that is kept never retires."""
    instance = CountedInstance(world, server, choices, name, 0.0)
    instance.counts = counts
    instance.runtime = dataclasses.replace(instance.runtime, fraction=choices.fraction)  # any, not one of three
    program = Program(instance)
    pretence = Pretence(instance, KEYS, job_seconds, kept=kept)
    published = Published(jobs=queue, api_slots=1, work=pretence, results=pretence)
    worker = Worker(
        keys=KEYS,
        store=program,
        queue=Documents(program, KEYS, published),
        machine=pretence,
        notices=pretence,
        work=pretence,
        hosts=HostRecords(program, KEYS, pretence.identity, program.runtime, worker_version="1", directory="/w"),
        journal=Journal(instance),
        runtime=program.runtime,
        terms=Terms.of(LEASE_SECONDS),
        terminate_host=True,
        look_seconds=LOOK_SECONDS,
    )
    world.spawn(program.body, lambda: worker.run() and None)
    return instance


@dataclass(frozen=True, kw_only=True)
class Idle:
    """What a worker asks that has nothing to do."""

    keys: int
    running: int  # claims that others renew
    scans: int
    lists: int
    gets: int  # of claims
    changed: int  # versions of claims that were written meanwhile: no more than that is to be read


def idle(jobs: int, running: int, seconds: float) -> Idle:
    """A kept host beside a queue of which `running` jobs are run by others and the rest is done."""
    world = World()
    server = Server(world, KEYS, 1)
    queue = tuple(Job(id=f"job-{number:05}", api_weight=0) for number in range(jobs))
    counts, hidden = Counts(), Counts()
    choices = Chances(1)
    server.upload(KEYS.document(QUEUE), msgspec.json.encode({}))
    for number in range(running):
        employ(world, server, choices, f"busy-{number}", queue[jobs - running + number :][:1], hidden, 10 * seconds)
    world.run(600)
    for number in range(jobs - running):
        _finish(server, queue[number].id)
    watcher = employ(world, server, choices, "idle", queue, counts, seconds, kept=True)
    began: list[tuple[int, int, int]] = []  # at each look: what it had listed and read before, and what others wrote

    def told(verb: str, key: str) -> None:
        if (verb, key) == ("LIST", KEYS.claims):
            lists = counts["LIST", "claims"] + counts["LIST", "done"]
            began.append((lists, counts["GET", "claims"], hidden["PUT", "claims"]))

    watcher.told = told
    while len(began) < 2:  # the first look reads everything
        world.run(world.now + 60)
    began.clear()
    world.run(world.now + seconds)
    return Idle(
        keys=jobs,
        running=running,
        scans=len(began) - 1,
        lists=began[-1][0] - began[0][0],
        gets=began[-1][1] - began[1][1],  # what a look reads was written between the last one and it
        changed=began[-2][2] - began[0][2],
    )


def _finish(server: Server, job: str) -> None:
    from msgspec.structs import replace

    from longhaul.fleet import lease as rules
    from longhaul.fleet.lease import Completion, Outcome, Owner

    taken = rules.taken(
        None,
        Owner(instance="i-0", worker="w"),
        Terms.of(LEASE_SECONDS),
        nonce=job,
        wall=server.get(KEYS.document(QUEUE)).date,  # type: ignore[union-attr]
    )
    server.put(KEYS.claim(job), rules.encode(taken), None)
    end = Completion(outcome=Outcome.REPORT_ERROR)
    there = server.objects[KEYS.claim(job)].etag
    body = rules.encode(replace(taken, nonce=f"{job}-done", state=State.DONE, completion=end))
    server.put(KEYS.claim(job), body, there)
    server.upload(KEYS.index(job), b"{}")
