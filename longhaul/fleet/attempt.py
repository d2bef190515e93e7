"""One attempt of a job, from its claim to whatever end it takes (F10, F11, F13, F14)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from longhaul.fleet.aside import KILL_SECONDS, AliveError, HaltedError, LateError
from longhaul.fleet.control import Control, Equipment, GivenUpError
from longhaul.fleet.errors import FleetError
from longhaul.fleet.holding import Verdict
from longhaul.fleet.keys import Place
from longhaul.fleet.lease import State
from longhaul.fleet.publication import Publication
from longhaul.fleet.surroundings import Quarantine
from longhaul.fleet.taking import Taken
from longhaul.fleet.tasks import Task
from longhaul.fleet.watch import Reason, Watch
from longhaul.fleet.work import Unconfirmed

logger = logging.getLogger(__name__)

UNSTORED = 75  # exit code of a run that met the deadline, or whose records could not be stored (F19)
SETTLED_ITSELF = (0, 1, 130)  # exit codes of a run that has cancelled its queries
QUIESCE_SECONDS = 420.0  # after which quiescing counts as not confirmed; it gives itself 300
LOOK_SECONDS = 5.0
JOURNAL_SECONDS = 5.0

# F13: all before 100 s have passed since the notice
INTERRUPT_SECONDS, HAND_OVER_KILL_SECONDS, UPLOAD_SECONDS, CLAIM_SECONDS, SLOTS_SECONDS = 20.0, 3.0, 45.0, 20.0, 10.0
HAND_OVER_SECONDS = 100.0


class How(Enum):
    """An attempt ended."""

    DONE = "the job is done"
    GIVEN_UP = "another attempt is to go on, of anybody"
    HANDED_OVER = "the host is about to go"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an attempt ended, and what it left. While it ran, its whole run was on record as unsettled (I5).

    So a worker that starts after a crash knows what to settle before it takes anything.
    """

    how: How
    quarantine: Quarantine | None = None  # what has to be settled before this host takes anything (I5)
    why: str = ""
    fault: str | None = None  # of the host alone, for which the attempt was given up


class Attempt:
    """Runs in the worker's one thread. `run` returns within 100 s of a notice, whatever hangs (F13, S37)."""

    def __init__(self, equipment: Equipment, taken: Taken) -> None:
        self._equipment, self._taken, self._place = equipment, taken, taken.place
        self._runtime, self._claim = equipment.runtime, taken.claim
        self.watch = Watch(
            taken, equipment.slots, equipment.lookout, equipment.waiter, equipment.runtime, equipment.terms
        )
        self._control = Control(equipment, self.watch)
        self._to_settle: tuple[Place, ...] = ()  # attempts whose queries may run
        self._unconfirmed: Unconfirmed | None = None  # that quiescing them did not confirm
        self._started = self._measuring = False  # whether it ever ran, and whether it runs
        self._fault: str | None = None

    def run(self) -> Ending:
        """From the first renewal to the last slot given back."""
        self.watch.start()
        try:
            return self._run()
        except Exception:
            self._control.kill(self._runtime.clock() + KILL_SECONDS)  # nobody knows what this is; nothing goes on
            raise
        finally:
            self.watch.stop()

    def _run(self) -> Ending:
        try:
            verdict = self._work()
            why = verdict.value
            if verdict is Verdict.COMPLETED:
                return self._close(How.DONE, why)
        except HaltedError as halted:
            if halted.reason is Reason.NOTICE:
                return self._hand_over()
            why = str(halted)
        except (FleetError, OSError) as error:
            why = f"{type(error).__name__}: {error}"
            self._fault = why if isinstance(error, OSError) else None  # transfers say what failed in types of their own
        logger.warning("attempt %s of %s ends: %s", self._place.attempt.number, self._place.job, why)
        try:
            return self._give_up(why)
        except HaltedError:  # of a notice; nothing else is heeded any more
            return self._hand_over()

    # ---- the way to a measured job ---------------------------------------------------------------------------------
    def _work(self) -> Verdict:
        control, work, results = self._control, self._equipment.work, self._equipment.results
        body, place = self._claim.body, self._place
        earlier = self._earlier()
        publication = Publication(self._equipment, control, self._taken, earlier)
        if self._taken.poisoned:
            return publication.abandoned(body.barren)
        for one in earlier:
            control.insist(f"downloading attempt {one.attempt.number}", partial(results.download, one))
        if earlier:
            self._unconfirmed = self._quiesce(earlier)
            if self._unconfirmed is not None:
                self._to_settle = earlier
                raise GivenUpError("queries of earlier attempts may still run")
        control.look_again(LOOK_SECONDS)
        record = Quarantine(places=(place,), unconfirmed=Unconfirmed(queries=(), prefixes=()))
        control.call("putting the run on record", partial(self._equipment.journal.write, record), JOURNAL_SECONDS)
        self._to_settle, self._started, self._measuring = (place,), True, True
        try:
            code = control.run(lambda wake: work.run(place, earlier, on_exit=wake))
        except OSError:
            self._to_settle, self._started, self._measuring = (), False, False  # it never began
            raise
        self._measuring = False
        if code == UNSTORED:
            raise GivenUpError("records could not be stored")
        if code == 0:
            self._to_settle = ()
        else:
            self._unconfirmed = self._quiesce((place,))
        return publication.measured(code, _errors(self._unconfirmed))

    def _earlier(self) -> tuple[Place, ...]:
        """Attempts whose records count. The first has none: its taking has just seen that nothing is left (F2)."""
        place = self._place
        if place.attempt.number == 1:
            return ()
        generations = self._claim.body.generations
        look = partial(self._equipment.results.attempts, place.job, generations)
        return tuple(one for one in self._control.insist("listing earlier attempts", look) if one != place)

    def _quiesce(self, places: tuple[Place, ...]) -> Unconfirmed | None:
        """Stop what these attempts may have left; what was not confirmed, if anything."""
        work = self._equipment.work
        try:
            code = self._control.run(lambda wake: work.quiesce(places, on_exit=wake), QUIESCE_SECONDS)
        except OSError:
            logger.exception("quiescing cannot be started")
            code = None
        if code == 0:
            self._to_settle = ()
            return None
        return self._word(places)

    # ---- the ways out ----------------------------------------------------------------------------------------------
    def _give_up(self, why: str) -> Ending:
        """F14: kill, stop the queries, record nothing, release what is still ours."""
        control = self._control
        control.heeds_loss = False
        dead = control.kill(self._runtime.clock() + KILL_SECONDS)
        if dead and self._to_settle and self._unconfirmed is None:
            try:
                self._unconfirmed = self._quiesce(self._to_settle)
            except AliveError:
                dead = False
        if not dead:
            return self._leave_alone(why)
        control.heeds_notice = False
        self._end_claim(State.RELEASED, CLAIM_SECONDS)
        return self._close(How.GIVEN_UP, why)

    def _hand_over(self) -> Ending:
        """F13: one deadline, whatever hangs. Nothing here waits for what others hold."""
        control, runtime = self._control, self._runtime
        control.heeds_loss = control.heeds_notice = False
        began = self._equipment.lookout.at
        held = self._claim.held
        code = self._interrupt(began + INTERRUPT_SECONDS)
        dead = control.kill(runtime.clock() + HAND_OVER_KILL_SECONDS)
        end = began + HAND_OVER_SECONDS - SLOTS_SECONDS - 2  # of the claim's part; the next two are bounded by it too
        if held and self._started:
            self._upload(min(runtime.clock() + UPLOAD_SECONDS, end - CLAIM_SECONDS))
        if not dead:
            return self._leave_alone("notice", How.HANDED_OVER)
        self._end_claim(State.INTERRUPTED, max(0.0, min(CLAIM_SECONDS, end - runtime.clock())))
        if code in SETTLED_ITSELF:
            self._to_settle = ()
        return self._close(How.HANDED_OVER, "notice")

    def _interrupt(self, until: float) -> int | None:
        """Let a run end by itself, which cancels its queries; its exit code."""
        process = self._control.process
        if process is None or not self._measuring:
            return None
        if process.exit_code is None:
            Task(self._runtime, "interrupting the run", process.interrupt, self._equipment.waiter.wake)
        self._control.wait(lambda: process.exit_code is not None, until)
        return process.exit_code

    def _upload(self, until: float) -> None:
        """What was measured so far, also what only the host has (S7, S35, S53); never beside an older upload (S26)."""
        control, waiter = self._control, self._equipment.waiter
        uploading = control.uploading
        if uploading is not None and not uploading.ended:
            waiter.until(lambda: uploading.ended, until)
            if not uploading.ended:
                return
        upload = partial(self._equipment.results.upload, self._place)
        task = Task(self._runtime, "uploading the interrupted attempt", upload, waiter.wake)
        waiter.until(lambda: task.ended, until)

    def _end_claim(self, state: State, seconds: float) -> None:
        until = self._runtime.clock() + seconds
        try:
            verdict = self._control.call(f"claim {state}", partial(self._claim.end, state, until), seconds + 1)
            logger.info("claim of %s %s: %s", self._place.job, state, verdict.value)
        except LateError as error:
            logger.warning("%s", error)  # it expires

    def _close(self, how: How, why: str) -> Ending:
        """Slots back, side by side (S76), once the claim is not ours any more; then nothing is transferred either.

        Nothing is held then, so a notice ends the wait.
        """
        self.watch.stop()
        self._equipment.slots.give_back(self.watch.slots)
        if how is not How.HANDED_OVER:
            self._control.heeds_notice = True
            if not self._control.outlast():
                self._fault = "a transfer does not end"
        return Ending(how=how, quarantine=self._left(), why=why, fault=self._fault)

    def _leave_alone(self, why: str, how: How = How.GIVEN_UP) -> Ending:
        """Something that was killed lives: others may have claim and slots only once they expire (I1, I4, I5)."""
        logger.error("a command of %s cannot be killed", self._place.job)
        self._claim.forsake()  # what still runs may act no longer
        self.watch.stop()
        return Ending(how=how, quarantine=self._left(), why=f"{why}; a command cannot be killed")

    def _left(self) -> Quarantine | None:
        """What this host has to settle before it takes anything, on whichever way out (S45)."""
        if self._unconfirmed is None and not self._to_settle:
            return None
        places = self._to_settle or (self._place,)
        return Quarantine(places=places, unconfirmed=self._unconfirmed or self._word(places))

    def _word(self, places: tuple[Place, ...]) -> Unconfirmed:
        try:
            return self._equipment.work.unconfirmed(places)
        except (OSError, ValueError):
            logger.exception("what may still run is not known by name")
            return Unconfirmed(queries=(), prefixes=())


def _errors(unconfirmed: Unconfirmed | None) -> Sequence[str]:
    """As a done claim names them."""
    if unconfirmed is None:
        return ()
    queries = [f"query {one}" for one in unconfirmed.queries]
    found = [*queries, *(f"a query below {one}" for one in unconfirmed.prefixes)] or ["a query"]
    return [f"{one} may still run" for one in found]
