"""Scenarios as directed schedules: whole workers on virtual time, to whom nothing happens by chance."""

from __future__ import annotations

from typing import Any

from longhaul.fleet.lease import Outcome
from tests.simulation.workers.schedule import Fleet, direct


class Scene:
    """What is told, and what came of it."""

    def __init__(self, hosts: int = 1) -> None:
        self.hosts = hosts
        self.trace: list[str] = []
        self.tells: list[tuple[float, object]] = []

    def at(self, seconds: float, what: object) -> None:
        """Let something happen then: a function of the fleet."""
        self.tells.append((seconds, what))

    def play(self) -> Fleet:
        """Run it; every invariant must hold."""
        fleets: list[Fleet] = []

        def directing(fleet: Fleet) -> None:
            fleets.append(fleet)
            for seconds, what in self.tells:
                fleet.world.at(seconds, lambda what=what: what(fleet))

        result = direct(directing, hosts=self.hosts, trace=self.trace.append)
        assert result.violation is None, "\n".join(self.trace[-40:])
        return fleets[0]

    def when(self, text: str) -> float:
        """It first stands in the trace then."""
        return self.times(text)[0]

    def times(self, text: str) -> list[float]:
        """Whenever it stands in the trace."""
        return [float(line.split(maxsplit=1)[0]) for line in self.trace if text in line]


def crash(fleet: Fleet) -> None:
    """The first host dies."""
    fleet.happen(fleet.group.instances[0], "crash")


def left_alone(fleet: Fleet) -> None:
    """No housekeeping marks what the dead left, and the group shrinks to nothing if its hosts want it."""
    fleet.group.minimum = 0
    fleet.keeper._look = lambda: None  # type: ignore[method-assign]


def test_s1_s21_a_lone_host_dies_and_its_replacement_waits_for_its_claim() -> None:
    """S1, S21, S29: renewed just before, by a host that is gone; nobody goes home, and nobody else sees to it."""
    scene = Scene()
    scene.at(0, left_alone)
    scene.at(92, crash)
    fleet = scene.play()
    claim = fleet.server.lease(fleet.keys.claim("heavy"))
    assert claim is not None
    assert claim.attempt == 2
    assert scene.when("is gone: retires") > scene.when("light-1 is done")


def test_s43_a_lone_workers_queries_may_run_on_and_it_neither_goes_home_nor_goes_on() -> None:
    """S32, S43, I5: cut off beyond its lease and beyond all quiescing, while a query of its own runs."""
    scene = Scene()
    scene.at(80, lambda fleet: setattr(fleet.group.instances[0], "query_seconds", 900))
    scene.at(100, lambda fleet: fleet.happen(fleet.group.instances[0], "cut off", 700))
    fleet = scene.play()
    assert len(fleet.group.instances) == 1
    assert 100 < scene.when("attempt 1 of heavy ends") < 400
    assert scene.when("worker ends: 75") < scene.when("q-3 is stopped") < scene.when("q-4 runs")


def test_s46_a_renewal_that_nobody_hears_of_is_given_back_once_it_is_seen() -> None:
    """S46: S3 has the renewal, its author is cut off until it has stopped; the claim is not left to expire."""
    scene = Scene()

    def tell(fleet: Fleet) -> None:
        host, put = fleet.group.instances[0], fleet.group.instances[0]._put

        def cut_off(key: str, *others: Any) -> str | None:
            if key == fleet.keys.claim("heavy"):
                host._put = put  # type: ignore[method-assign]
                fleet.happen(host, "cut off", 265)
            return put(key, *others)

        host._put = cut_off  # type: ignore[method-assign]

    scene.at(100, tell)
    fleet = scene.play()
    assert len(fleet.group.instances) == 1
    renewed = max(at for at in scene.times("claims/heavy h0-1's g0 attempt 1 running"))
    assert 110 < renewed < 130
    assert scene.when("attempt 1 of heavy ends") < renewed + 265
    assert scene.when("claims/heavy h0-1's g0 attempt 1 released") < renewed + 300


def test_s64_a_requeue_between_housekeepings_look_and_its_write_keeps_its_host() -> None:
    """S64, I10: the claims are read again after the floor was lowered."""
    scene = Scene()

    def tell(fleet: Fleet) -> None:
        lower = fleet.group.set_minimum

        def set_minimum(minimum: int) -> None:
            fleet.group.set_minimum = lower  # type: ignore[method-assign]
            fleet.server.requeue("heavy")
            lower(minimum)

        fleet.group.set_minimum = set_minimum  # type: ignore[method-assign]

    scene.at(150, tell)
    fleet = scene.play()
    lowered, raised = fleet.group.minima[:2]
    assert (lowered[1], raised[1]) == (0, 1)
    assert raised[0] - lowered[0] < 10, "at once, and not only at the next look"
    assert fleet.server.is_done("heavy")


def test_s65_a_host_stands_still_between_the_look_at_its_deadline_and_its_query() -> None:
    """S65, S66, I5: its query leaves while another measures; that trial is disturbed, and repeated."""
    scene = Scene(hosts=2)
    scene.at(1, lambda fleet: [setattr(one, "gap", 560.0) for one in fleet.group.instances[:1]])
    fleet = scene.play()
    ends = [lease for lease in fleet.server.completions.values() if lease.completion is not None]
    assert all(lease.completion.outcome is Outcome.SUCCESS for lease in ends if lease.completion is not None)
    assert scene.times("-1-start.json"), "no trial was repeated"


def test_s66_a_suspended_host_does_not_believe_in_its_lease() -> None:
    """S66, I1: time went on while it stood still, and another host has a slot of it."""
    scene = Scene(hosts=2)
    scene.at(10, lambda fleet: fleet.happen(fleet.group.instances[0], "pause", 400))
    scene.play()
    assert scene.when("slots/1 h1-1's g0 attempt 2 running") < 410 <= scene.when("attempt 1 of heavy ends")


def test_s67_answers_of_ec2_that_lag_behind_mark_nobody_who_lives() -> None:
    """S67: a replacement that is not listed yet, and a host that is listed as gone only later."""
    scene = Scene()
    scene.at(0, lambda fleet: setattr(fleet.keeper, "stale", 90))
    for seconds in (92, 400, 700):
        scene.at(seconds, lambda fleet: fleet.happen(fleet.group.live[0], "crash") if fleet.group.live else None)
    scene.play()


def test_s69_a_host_whose_worker_is_gone_is_replaced() -> None:
    """S69, L1: nobody starts it again, and it is the only one."""
    scene = Scene()
    scene.at(92, lambda fleet: fleet.group.instances[0].kill_processes())
    fleet = scene.play()
    assert scene.times("is unhealthy")
    assert len(fleet.group.instances) == 2


def test_s20_a_rehearsed_host_is_replaced_and_the_job_goes_on() -> None:
    """S20, L3, E2: as a notice of EC2; no more than one repetition is wasted."""
    scene = Scene()
    scene.at(92, lambda fleet: fleet.happen(fleet.group.instances[0], "rehearsal"))
    fleet = scene.play()
    assert scene.when("heavy h0-1's g0 attempt 1 interrupted") < 92 + 100
    assert len(fleet.group.instances) == 2
