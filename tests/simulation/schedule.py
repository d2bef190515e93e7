"""One schedule: hosts, jobs and what befalls them, from a seed or from a line of choices."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Terms
from longhaul.fleet.taking import Job
from tests.simulation import choices as lines
from tests.simulation.choices import Choices
from tests.simulation.contender import Contender
from tests.simulation.host import Host
from tests.simulation.logged import logged
from tests.simulation.observed import observed
from tests.simulation.server import Server
from tests.simulation.world import ViolationError, World

TERMS = Terms.of(300)
JOBS = (Job(id="heavy", api_weight=2), Job(id="light-0", api_weight=1), Job(id="light-1", api_weight=1))
SLOTS, HOSTS = 2, 2
ODDITY = 0.05  # the likelihood that a request is not like most
QUIET_FROM, HORIZON = 900.0, 6000.0  # seconds: no more faults, and everything must be done by then
FATES = ("none", "crash", "notice", "pause", "cut off")
WHENS = (15.0, 1.0, 60.0, 135.0, 150.0, 260.0)
LENGTHS = (330.0, 25.0, 200.0, 285.0, 700.0)
REPLACED_AFTER = 60.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a schedule went."""

    violation: str | None
    made: dict[int, int]  # the choices that were not dull
    events: int
    seconds: float  # of virtual time


def run(
    seed: int = 0, script: Mapping[int, int] | None = None, *, trace: Callable[[str], None] | None = None
) -> Result:
    """Run one schedule."""
    choices = Choices(seed, script)
    world = World()
    world.trace = trace
    violation = None
    with observed() as forget, logged(world, logging.ERROR):  # what S3 does not answer would take a tenth of the time
        forget()
        try:
            _play(world, choices)
        except ViolationError as error:
            violation = str(error)
        except Exception as error:  # noqa: BLE001  whatever ends a worker is a finding (L4)
            violation = f"L4 a worker ended with {type(error).__name__}: {error}"
        world.close()
    world.note(violation or "all is well")
    return Result(violation=violation, made=choices.made, events=world.count(), seconds=world.now)


def _play(world: World, choices: Choices) -> None:
    keys = QueueKeys("q")
    server = Server(world, keys, SLOTS)
    hosts: list[Host] = []
    names = itertools.count()

    def launch() -> None:
        oddity = ODDITY if world.now < QUIET_FROM else 0.0
        host = Host(world, server, choices, f"h{next(names)}", oddity)
        hosts.append(host)
        world.note(f"{host.name} starts")
        contender = Contender(host, keys, JOBS, SLOTS, TERMS)

        def main() -> None:
            contender.main()
            if host.noticed:
                die(host, "is gone after its notice")

        world.spawn(host, main)
        if world.now < QUIET_FROM:
            befall(host)

    def die(host: Host, how: str) -> None:
        if host.alive():
            world.note(f"{host.name} {how}")
            host.paused_until = math.inf
            world.at(REPLACED_AFTER, launch)

    def befall(host: Host) -> None:
        fate = FATES[choices.pick(len(FATES), 0.5)]
        if fate == "none":
            return
        when = WHENS[choices.pick(len(WHENS), 0.8)]
        length = LENGTHS[choices.pick(len(LENGTHS), 0.5)]

        def happen() -> None:
            world.note(f"{host.name}: {fate}")
            host.at_next_write, host.troubled = None, True
            if fate == "crash":
                die(host, "is dead")
            elif fate == "notice":
                host.noticed = True
                world.at(120, lambda: die(host, "is reclaimed"))
            elif fate == "pause":
                host.paused_until = world.now + length
            else:
                host.cut_off_until = world.now + length
            if host.alive() and world.now < QUIET_FROM and length < 300:
                world.at(length, lambda: befall(host))

        def arm() -> None:
            host.at_next_write, host.at_done_only = happen, moment == 2  # just as S3 has carried it out

        moment = choices.pick(3, 0.6)
        world.at(when, arm if moment else happen)

    def quiet() -> None:
        for host in hosts:
            host.oddity = 0.0

    for _ in range(HOSTS):
        launch()
    for what in (server.eat, server.requeue):
        if choices.pick(2, 0.15):
            when = (350.0, 200.0, 500.0)[choices.pick(3, 0.6)]
            world.at(when, lambda what=what: _meddle(server, what))
    world.at(QUIET_FROM, quiet)
    waits = world.run(HORIZON)
    open_jobs = [job.id for job in JOBS if not server.is_done(job.id)]
    if open_jobs:
        raise ViolationError(f"L1 not done after {world.now:.0f} s: {open_jobs}")
    if waits:
        raise ViolationError("L4 something still waits")


def _meddle(server: Server, what: Callable[[str], None]) -> None:
    """Only while other work keeps the workers there; a finished fleet has gone home."""
    done = [job.id for job in JOBS if server.is_done(job.id)]
    if done and len(done) < len(JOBS):
        what(done[0])


def shrink(result: Result, again: Callable[..., Result] = run) -> dict[int, int]:
    """The smallest line found that breaks the same rule, in schedules of the same kind."""
    rule = (result.violation or "").split(" ", 1)[0]

    def fails(script: Mapping[int, int]) -> dict[int, int] | None:
        tried = again(script=script)
        return tried.made if (tried.violation or "").split(" ", 1)[0] == rule else None

    return lines.shrink(result.made, fails)
