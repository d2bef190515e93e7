"""Handing over on real time and real threads, with its times cut (F13): what blocks here blocks, for half a minute."""

from __future__ import annotations

import threading

import pytest

from longhaul.fleet import aside, attempt, slots
from longhaul.fleet.attempt import Ending, How
from longhaul.fleet.keys import Attempt, Place
from longhaul.fleet.lease import State, Terms
from tests.unit.fleet.stage import RealWorld
from tests.unit.fleet.virtual import Scene, StageProcess

TERMS = Terms(lease_seconds=12, margin_seconds=1, grace_seconds=1, renew_seconds=0.3)
SOON = 15.0  # seconds; a machine under load may stall for some of them, and what waits for a call that hangs takes 30


@pytest.fixture(autouse=True, params=[10])
def _short_times(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Ten seconds instead of a hundred, or less."""
    for module, name in (
        *((attempt, name) for name in vars(attempt) if name.endswith("_SECONDS") and name != "QUIESCE_SECONDS"),
        (aside, "KILL_SECONDS"),
        (slots, "GIVE_BACK_SECONDS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) / request.param)


def scene(weight: int = 2) -> Scene:
    """A run that never ends, in a real world."""
    one = Scene(weight, look_seconds=0.02, world=RealWorld(), terms=TERMS)
    one.store.seconds = one.results.seconds = 0.005
    one.work.run_ends = (None, 0)
    return one


def ended(one: Scene) -> tuple[Ending, float]:
    """How the attempt ended, and how long after the notice."""
    results: list[Ending] = []

    def main() -> None:
        results.append(one.attempt_here())

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    thread.join(60)
    assert results, "it never ended"
    return results[0], one.world.now - one.when("notice")


@pytest.mark.parametrize("_short_times", [50], indirect=True)
def test_s25_s37_s76_nothing_that_blocks_holds_up_a_hand_over() -> None:
    """S25, S37, S76: S3, the upload and the signal hang in their threads; ten slots, the renewals under way."""
    one = scene(weight=10)

    def prepare(name: str, process: StageProcess) -> None:
        process.obeys, process.interrupt_hangs = False, True
        one.at(0.4, lambda: setattr(one.store, "hangs", lambda verb, key: True))

    one.work.prepare = prepare
    one.results.hangs.add("upload")
    one.notice_at(1.0)
    ending, seconds = ended(one)
    assert ending.how is How.HANDED_OVER
    assert ending.quarantine is not None
    assert seconds < SOON
    assert one.happened("run killed")


def test_a_hand_over_without_trouble_is_quick() -> None:
    """L3."""
    one = scene()
    one.work.prepare = lambda name, process: setattr(process, "interrupt", lambda: process.exit(130))
    one.notice_at(0.5)
    ending, seconds = ended(one)
    assert (ending.how, ending.quarantine) == (How.HANDED_OVER, None)
    assert seconds < SOON
    assert one.store.lease(one.claim).state is State.INTERRUPTED
    assert one.slot_states() == {State.RELEASED}


def test_s32_i1_a_run_is_killed_before_the_deadline_while_s3_hangs() -> None:
    """S32, I1: the thread that renews is stuck, the one that decides is not."""
    one = scene()
    one.at(0.5, lambda: setattr(one.store, "hangs", lambda verb, key: key == one.claim))
    one.note("notice")  # what `ended` counts from
    one.work.quiesce_ends = [(0.1, 0)]
    ending, seconds = ended(one)
    assert ending.how is How.GIVEN_UP
    assert seconds < 25
    assert one.when("run killed") < max(one.work.deadlines) - 1000
    assert one.happened("quiesce 1")
    assert ending.quarantine is None


def test_s6_a_notice_while_a_download_hangs() -> None:
    """S6, S37: nobody waits for it."""
    one = scene()
    one.begun(Place(job="job", attempt=Attempt(generation=0, number=9)))
    one.results.hangs.add("download")
    one.notice_at(0.3)
    ending, seconds = ended(one)
    assert ending.how is How.HANDED_OVER
    assert seconds < SOON
    assert not one.happened("run")
