"""One schedule of whole workers: a group of hosts, a queue, an operator, housekeeping, and what befalls them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from longhaul.fleet import operations
from longhaul.fleet.errors import FleetError, UnansweredError
from longhaul.fleet.hosts import HostRecords
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Outcome, Terms
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.queue import PAUSED, QUEUE
from longhaul.fleet.surroundings import Published
from longhaul.fleet.taking import Job
from longhaul.fleet.worker import INTERRUPTED, RETIRED, Worker
from tests.simulation.choices import Choices
from tests.simulation.host import Host
from tests.simulation.logged import logged
from tests.simulation.observed import observed
from tests.simulation.schedule import LENGTHS, ODDITY, WHENS, Result
from tests.simulation.server import Server
from tests.simulation.workers.bench import REPETITIONS, plan_for
from tests.simulation.workers.commands import Commands
from tests.simulation.workers.group import Group, Membership
from tests.simulation.workers.housekeeping import Housekeeping
from tests.simulation.workers.idling import LOOK_SECONDS, Idling
from tests.simulation.workers.instance import Body, Instance, Journal, Program
from tests.simulation.workers.ledger import Ledger
from tests.simulation.workers.queries import Queries
from tests.simulation.workers.transfers import Transfers
from tests.simulation.world import ViolationError, World

TERMS = Terms.of(300)
JOBS = (Job(id="heavy", api_weight=2), Job(id="light-0", api_weight=1), Job(id="light-1", api_weight=1))
SLOTS, HOSTS = 2, 2
QUIET_FROM, HORIZON = 1500.0, 14000.0
FATES = ("none", "crash", "notice", "pause", "cut off", "worker crash", "rehearsal")
RESTART_SECONDS, REHEARSED_SECONDS, RECLAIM_SECONDS = 10.0, 30.0, 120.0
HAND_OVER_SECONDS = 101.0
PLANS = {job.id: plan_for(job.id, job.api_weight) for job in JOBS}


def run(
    seed: int = 0, script: Mapping[int, int] | None = None, *, trace: Callable[[str], None] | None = None
) -> Result:
    """Run one schedule."""
    return play(Choices(seed, script), trace=trace)


Directing = Callable[["Fleet"], None]


def direct(directing: Directing, *, hosts: int = HOSTS, trace: Callable[[str], None] | None = None) -> Result:
    """Run one schedule in which nothing happens by chance, but what is told before it begins."""
    return play(Choices(script={}), directing, hosts=hosts, trace=trace)


def play(
    choices: Choices,
    directing: Directing = lambda fleet: None,
    *,
    hosts: int = HOSTS,
    trace: Callable[[str], None] | None = None,
) -> Result:
    """Run one schedule, and say how it went."""
    world = World()
    world.trace = trace
    violation = None
    with observed() as forget, logged(world):
        forget()
        try:
            fleet = Fleet(world, choices, hosts)
            directing(fleet)
            fleet.play()
        except ViolationError as error:
            violation = str(error)
        except Exception as error:  # noqa: BLE001  whatever ends a worker is a finding (L4)
            violation = f"L4 a worker ended with {type(error).__name__}: {error}"
        world.close()
    world.note(violation or "all is well")
    return Result(violation=violation, made=choices.made, events=world.count(), seconds=world.now)


class Documents:
    """The `Queue` of a worker."""

    def __init__(self, program: Program, keys: QueueKeys, published: Published) -> None:
        self._program, self._keys, self._published = program, keys, published

    def published(self) -> Published | None:
        """See `Queue.published`."""
        return None if self._program.get(self._keys.document(QUEUE)) is None else self._published

    def paused(self) -> bool:
        """See `Queue.paused`."""
        return self._program.get(self._keys.document(PAUSED)) is not None


class Fleet:
    """Everything of one schedule."""

    def __init__(self, world: World, choices: Choices, hosts: int) -> None:
        self.world, self.choices, self.hosts, self.keys = world, choices, hosts, QueueKeys("q")
        self.server = Server(world, self.keys, SLOTS)
        self.queries = Queries(world)
        self.ledger = Ledger(self.server, self.queries, REPETITIONS)
        self.server.on_done = self._done
        self.jobs = [job.id for job in JOBS]
        self.group = Group(world, self.server, self.jobs, self._launch)
        self.keeper = Housekeeping(self.reliable("hk"), self.group, self.keys, self.jobs, SLOTS, TERMS)
        self._idling = Idling(self.server, self.keys, self.group, JOBS, SLOTS, TERMS)
        self._names = itertools.count()

    def play(self) -> None:
        """From the deployment to the last host."""
        world, choices = self.world, self.choices
        come = (0.0, 100.0)[choices.pick(2, 0.1)]
        world.at(come, lambda: self._write(QUEUE))
        self.group.begin(self.hosts)
        world.spawn(Body(0.0), lambda: self.keeper.run(QUIET_FROM))
        for what in (self._requeue, self._pause, self._rebalance):
            if choices.pick(2, 0.15):
                when = (500.0, 200.0, 900.0)[choices.pick(3, 0.6)]
                world.at(when, what)
        world.at(QUIET_FROM, self._quiet)
        self._look_on()
        waits = world.run(HORIZON)
        left = [job for job in self.jobs if not self.server.is_done(job)]
        if left:
            raise ViolationError(f"L1 not done after {world.now:.0f} s: {left}")
        if self.group.live:
            raise ViolationError(f"L5 still there: {[one.name for one in self.group.live]}")
        if waits:
            raise ViolationError("L4 something still waits")

    def _look_on(self) -> None:
        self._idling.look()
        if self.group.live or self.world.now < QUIET_FROM:
            self.world.at(LOOK_SECONDS, self._look_on)

    # ---- hosts -----------------------------------------------------------------------------------------------------
    def reliable(self, name: str) -> Host:
        """A host of somebody else: its network never fails."""
        host = Host(self.world, self.server, Choices(script={}), name, 0.0)
        host.choices = self.choices
        return host

    def _launch(self) -> Instance:
        oddity = ODDITY if self.world.now < QUIET_FROM else 0.0
        instance = Instance(self.world, self.server, self.choices, f"h{next(self._names)}", oddity)
        self.world.note(f"{instance.name} starts")
        self._serve(instance)
        if self.world.now < QUIET_FROM:
            self._befall(instance)
        return instance

    def _serve(self, instance: Instance) -> None:
        """As systemd starts the unit."""
        if instance.state != "running" or instance.worker is not None:
            return
        program = Program(instance)
        member = Membership(instance, self.group)
        work = Commands(instance, self.keys, PLANS, self.queries, self.ledger)
        results = Transfers(instance, self.keys)
        published = Published(jobs=JOBS, api_slots=SLOTS, work=work, results=results)
        worker = Worker(
            keys=self.keys,
            store=program,
            queue=Documents(program, self.keys, published),
            machine=member,
            notices=member,
            work=work,
            hosts=HostRecords(
                program, self.keys, member.identity, program.runtime, worker_version="1", directory="/worker"
            ),
            journal=Journal(instance),
            runtime=program.runtime,
            terms=TERMS,
            terminate_host=True,
        )
        instance.worker = worker

        def main() -> None:
            code = worker.run()
            self.world.note(f"{instance.name} worker ends: {code}")
            self._check_hand_over(instance)
            self.world.at(0, lambda: self._after(instance, code) if program.alive() else None)

        self.world.spawn(program.body, main)

    def _check_hand_over(self, instance: Instance) -> None:
        """L3: since the notice was seen, unless the host stood still meanwhile."""
        worker = instance.worker
        if worker is None or worker.lookout.notice is None or instance.last_paused_until > instance.noticed:
            return
        needed = instance.clock() - worker.lookout.at
        if needed > HAND_OVER_SECONDS:
            raise ViolationError(f"L3 {instance.name} needed {needed:.0f} s to hand over")

    def _after(self, instance: Instance, code: int) -> None:
        instance.kill_processes()
        instance.worker = None
        if code == RETIRED:
            if instance.state == "running":
                raise ViolationError(f"L5 the worker of {instance.name} has gone, and its host stays")
        elif code != INTERRUPTED:
            self.world.at(RESTART_SECONDS, lambda: self._serve(instance))
        elif instance.notice is not None and instance.notice.kind is NoticeKind.REHEARSAL:
            self.world.at(REHEARSED_SECONDS, lambda: self.group.terminate(instance, "was rehearsed"))

    # ---- what befalls them -----------------------------------------------------------------------------------------
    def _befall(self, instance: Instance) -> None:
        choices, world = self.choices, self.world
        fate = FATES[choices.pick(len(FATES), 0.5)]
        if fate == "none":
            return
        when = WHENS[choices.pick(len(WHENS), 0.8)]
        length = LENGTHS[choices.pick(len(LENGTHS), 0.5)]
        moment = choices.pick(3, 0.6)

        def happen() -> None:
            instance.at_next_write = None
            if instance.state != "running":
                return
            world.note(f"{instance.name}: {fate}")
            instance.troubled = True
            self.happen(instance, fate, length)
            if instance.state == "running" and world.now < QUIET_FROM and length < 300:
                world.at(length, lambda: self._befall(instance))

        def arm() -> None:
            instance.at_next_write, instance.at_done_only = happen, moment == 2  # just as S3 has carried it out

        world.at(when, arm if moment else happen)

    def happen(self, instance: Instance, fate: str, length: float = 0.0) -> None:
        """Something befalls a host."""
        world = self.world
        if fate == "crash":
            self.group.gone(instance, "crashed")
        elif fate == "notice":
            self._notice(instance, NoticeKind.TERMINATE)
            world.at(RECLAIM_SECONDS, lambda: self._reclaim(instance))
        elif fate == "pause":
            instance.pause(world.now + length)
        elif fate == "cut off":
            instance.cut_off_until = world.now + length
        elif fate == "worker crash":
            if instance.worker is not None:
                instance.kill_processes()
                instance.worker = None
                world.at(RESTART_SECONDS, lambda: self._serve(instance))
        else:
            self._notice(instance, NoticeKind.REHEARSAL)

    def _notice(self, instance: Instance, kind: NoticeKind) -> None:
        if instance.notice is None:
            instance.notice, instance.noticed = Notice(kind=kind), self.world.now

    def _reclaim(self, instance: Instance) -> None:
        if instance.state == "running":
            self._check_hand_over(instance)
            instance.reclaimed = True
            self.group.gone(instance, "is reclaimed")

    def _quiet(self) -> None:
        for instance in self.group.instances:
            instance.oddity = 0.0

    # ---- operators -------------------------------------------------------------------------------------------------
    def _requeue(self) -> None:
        """A finished job is to run again; the claim is written before the floor is raised."""
        done = [job for job in self.jobs if self.server.is_done(job)]
        if not done or not self.group.live:
            return
        host, again = self.reliable("op"), bool(self.choices.pick(2, 0.5))

        def main() -> None:
            with suppress(FleetError):
                operations.requeue(host, self.keys, done[0], host.runtime, resume=again)
                self.group.set_minimum(1)

        self.world.spawn(host, main)

    def _pause(self) -> None:
        host = self.reliable("op")

        def main() -> None:
            with suppress(UnansweredError):
                operations.pause(host, self.keys, host.runtime)
            self.world.at(250, lambda: self.server.delete(self.keys.document(PAUSED)))

        self.world.spawn(host, main)

    def _rebalance(self) -> None:
        self.group.rebalance()

    def _write(self, name: str) -> None:
        self.server.upload(self.keys.document(name), msgspec.json.encode({}))

    def _done(self, key: str, lease: object) -> None:
        there = self.server.completions[key, lease.generation]  # type: ignore[attr-defined]
        self.ledger.done(key, there)
        end = there.completion
        if end is not None and end.outcome not in (Outcome.SUCCESS, Outcome.REPORT_ERROR, Outcome.ABANDONED):
            raise ViolationError(f"E1 {key} is {end.outcome}, and every trial succeeds")
