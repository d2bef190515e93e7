"""One job from take to done, with the real worker, orchestrator and report: every request by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from longhaul.fleet.hosts import HostRecords
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Terms
from longhaul.fleet.queue import QUEUE
from longhaul.fleet.surroundings import Published
from longhaul.fleet.taking import Job
from longhaul.fleet.worker import Worker
from perf.fleet.counting import CountedInstance, Counts, area
from tests.simulation.choices import Choices
from tests.simulation.server import Server
from tests.simulation.workers.bench import plan_for
from tests.simulation.workers.commands import Commands
from tests.simulation.workers.group import Group, Membership
from tests.simulation.workers.instance import Journal, Program
from tests.simulation.workers.ledger import Ledger
from tests.simulation.workers.queries import Queries
from tests.simulation.workers.schedule import Documents
from tests.simulation.workers.transfers import Transfers
from tests.simulation.world import World

KEYS = QueueKeys("q")
LEASE_SECONDS = 600.0
MORE_FILES = 3  # that the simulation does not write: log, and the summary as CSV and Markdown; a test counts real ones


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What one job took."""

    trials: int
    slots: int
    coordination: int  # claim, slots, index, and a look for earlier attempts
    records: int  # written before and after trials
    files: int  # everything else of the attempt: environment, events, trials, log and summary
    renewals: int

    @property
    def whole(self) -> int:
        """Without renewals, which the issue counts apart."""
        return self.coordination + self.records + self.files


def count(repetitions: int, slots: int) -> Counted:
    """Run a queue of one job on one host, and count between the first look at its claim and its last slot's return."""
    world = World()
    server = Server(world, KEYS, max(1, slots))
    job = Job(id="job", api_weight=slots)
    plans = {job.id: plan_for(job.id, slots, repetitions)}
    queries = Queries(world)
    told: list[tuple[str, str]] = []
    group = Group(world, server, [job.id], lambda: _launch(world, server, plans, job, queries, group, told))
    world.at(0, lambda: _publish(server))
    group.begin(1)
    group.minimum = 0
    world.run(repetitions * 200.0 + 2000.0)
    if not server.is_done(job.id):
        raise RuntimeError("the job is not done")
    return counted(told, repetitions + 1, slots, unseen=MORE_FILES)


def _publish(server: Server) -> None:
    server.upload(KEYS.document(QUEUE), msgspec.json.encode({}))


def _launch(world, server, plans, job, queries, group, told) -> CountedInstance:  # type: ignore[no-untyped-def]
    instance = CountedInstance(world, server, Choices(script={}), "host", 0.0)
    instance.counts = Counts()
    instance.told = lambda verb, key: told.append((verb, key))
    program, member = Program(instance), Membership(instance, group)
    ledger = Ledger(server, queries, plans[job.id].job.repetitions)
    work = Commands(instance, KEYS, plans, queries, ledger)
    published = Published(jobs=(job,), api_slots=max(1, job.api_weight), work=work, results=Transfers(instance, KEYS))
    records = HostRecords(program, KEYS, member.identity, program.runtime, worker_version="1", directory="/worker")
    worker = Worker(
        keys=KEYS,
        store=program,
        queue=Documents(program, KEYS, published),
        machine=member,
        notices=member,
        work=work,
        hosts=records,
        journal=Journal(instance),
        runtime=program.runtime,
        terms=Terms.of(LEASE_SECONDS),
        terminate_host=True,
    )
    world.spawn(program.body, lambda: worker.run() and None)
    return instance


def counted(told: Sequence[tuple[str, str]], trials: int, slots: int, *, unseen: int = 0) -> Counted:
    """Take apart what a worker asked, verb and key of each request, around its one job; `unseen` files come on top."""
    claim = KEYS.claim("job")
    first = told.index(("GET", claim))
    last = max(number for number, (verb, key) in enumerate(told) if area(key) in ("slots", "done") and verb == "PUT")
    during = [one for one in told[first : last + 1] if area(one[1]) not in ("hosts", "documents")]
    during = [one for one in during if one not in {("LIST", KEYS.claims), ("LIST", KEYS.done)}]
    leases = [one for one in during if area(one[1]) in ("claims", "slots")]
    puts = sum(verb == "PUT" for verb, _ in leases)
    renewals = puts - 2 * (1 + slots)  # but for taking and ending each
    index = sum(area(key) == "done" for _, key in during)
    checkpoints = sum("/checkpoint/" in key for verb, key in during if verb == "PUT")
    results = sum(area(key) == "results" for _, key in during)
    first_look = min(1, during.count(("LIST", KEYS.results("job"))))
    return Counted(
        trials=trials,
        slots=slots,
        coordination=len(leases) - renewals + index + first_look,
        records=checkpoints,
        files=results - checkpoints - first_look + unseen,
        renewals=renewals,
    )
