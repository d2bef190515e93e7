"""What an attempt has around it: commands, results, a disk, and the job that it is at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from longhaul.fleet.attempt import Attempt, Ending
from longhaul.fleet.control import Equipment
from longhaul.fleet.keys import Place, QueueKeys
from longhaul.fleet.lease import Owner, Record, State, Terms
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.slots import Slots
from longhaul.fleet.surroundings import Quarantine
from longhaul.fleet.taking import Job, Taken, Taker
from longhaul.fleet.tasks import Waiter
from longhaul.fleet.work import Merged, Unconfirmed
from tests.unit.fleet.memory import ME, OTHER, body, put_lease
from tests.unit.fleet.stage import Stage, StageStore

QUEUE = QueueKeys("q")
LEASE = Terms.of(300)
NOTICE = Notice(kind=NoticeKind.TERMINATE)
BOUND = 100.0  # F13


class StageProcess:
    """A command. `seconds` None: it never ends by itself."""

    def __init__(self, stage: Stage, name: str, seconds: float | None, code: int, on_exit: Callable[[], None]) -> None:
        self._stage, self._name, self._on_exit = stage, name, on_exit
        self.exit_code: int | None = None
        self.obeys, self.dies = True, True
        self.interrupt_hangs = self.kill_hangs = False
        self.on_interrupt: Callable[[], None] = lambda: None
        if seconds is not None:
            stage.at(seconds, lambda: self.exit(code))

    def exit(self, code: int) -> None:
        """It ends by itself; what it started may go on."""
        if self.exit_code is None:
            self.exit_code = code
            self._stage.note(f"{self._name} exit {code}")
            self._on_exit()

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        self._stage.note(f"{self._name} interrupted")
        if self.interrupt_hangs:
            self._stage.hang()
        if self.obeys:
            self.on_interrupt()
            self._stage.at(2, lambda: self.exit(130))

    def kill(self, until: float) -> bool:
        """See `Process.kill`."""
        self._stage.note(f"{self._name} killed")
        if self.kill_hangs:
            self._stage.hang()
        if not self.dies:
            self._stage.world.sleep(max(0.0, until - self._stage.runtime.clock()))
            return False
        self.exit(-9)
        return True


class StageWork:
    """Commands that take so long and end so. `prepare` may change a process before it starts."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.run_ends: tuple[float | None, int] = (200.0, 0)
        self.quiesce_ends: list[tuple[float | None, int]] = [(35.0, 0)]  # the last one goes on for ever
        self.report_ends: tuple[float | None, int] = (5.0, 0)
        self.error: dict[str, Exception] = {}
        self.prepare: Callable[[str, StageProcess], None] = lambda name, process: None
        self.deadlines: list[float] = []
        self.merge: Callable[[Place], Merged] = lambda place: Merged(
            records=(Record(key="r", etag="e"),), files=("job-summary.json", "merged.json"), failed=0
        )

    def _start(
        self, name: str, places: Sequence[Place], ends: tuple[float | None, int], on_exit: Callable[[], None]
    ) -> StageProcess:
        self._stage.note(f"{name} {' '.join(str(one.attempt.number) for one in places)}")
        if name in self.error:
            raise self.error[name]
        process = StageProcess(self._stage, name, *ends, on_exit)
        self.prepare(name, process)
        return process

    def run(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> StageProcess:
        """See `Work.run`."""
        return self._start("run", [place, *earlier], self.run_ends, on_exit)

    def quiesce(self, places: Sequence[Place], *, on_exit: Callable[[], None]) -> StageProcess:
        """See `Work.quiesce`."""
        ends = self.quiesce_ends.pop(0) if len(self.quiesce_ends) > 1 else self.quiesce_ends[0]
        return self._start("quiesce", places, ends, on_exit)

    def report(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> StageProcess:
        """See `Work.report`."""
        return self._start("report", [place, *earlier], self.report_ends, on_exit)

    def merged(self, place: Place) -> Merged:
        """See `Work.merged`."""
        return self.merge(place)

    def unconfirmed(self, places: Sequence[Place]) -> Unconfirmed:
        """See `Work.unconfirmed`."""
        return Unconfirmed(queries=("q-1",), prefixes=tuple(f"trials-of-{one.attempt.number}/" for one in places))

    def tell_deadline(self, deadline: float) -> None:
        """See `Work.tell_deadline`."""
        self.deadlines.append(deadline)


class StageResults:
    """Attempts in S3. `errors` are raised one after the other; `hangs` names methods that never come back."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.there: list[Place] = []
        self.errors: dict[str, list[Exception]] = {}
        self.hangs: set[str] = set()
        self.seconds = 1.0
        self.has_measured = True

    def _do(self, what: str, detail: str = "") -> None:
        self._stage.note(f"{what} {detail}".strip())
        if what in self.hangs:
            self._stage.hang()
        self._stage.world.sleep(self.seconds)
        if self.errors.get(what):
            raise self.errors[what].pop(0)

    def attempts(self, job: str, generations: range) -> Sequence[Place]:
        """See `Results.attempts`."""
        self._do("list", f"{job} {generations.start}..{generations.stop - 1}")
        return list(self.there)

    def download(self, place: Place) -> None:
        """See `Results.download`."""
        self._do("download", str(place.attempt.number))

    def upload(self, place: Place, names: Sequence[str] | None = None) -> Sequence[Record]:
        """See `Results.upload`."""
        self._do("summary" if names else "upload", str(place.attempt.number))
        return ()

    def measured(self, place: Place) -> bool:
        """See `Results.measured`."""
        return self.has_measured


class StageNotices:
    """What a notice service says."""

    def __init__(self) -> None:
        self.found: Notice | None = None

    def check(self) -> Notice | None:
        """See `Notices.check`."""
        return self.found


class StageJournal:
    """A disk."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.kept: Quarantine | None = None
        self.errors: dict[str, list[Exception]] = {}

    def quarantine(self) -> Quarantine | None:
        """See `Journal.quarantine`."""
        if self.errors.get("read"):
            raise self.errors["read"].pop(0)
        return self.kept

    def write(self, quarantine: Quarantine | None) -> None:
        """See `Journal.write`."""
        if self.errors.get("write"):
            raise self.errors["write"].pop(0)
        self._stage.note("quarantine kept" if quarantine else "quarantine cleared")
        self.kept = quarantine

    def check(self) -> None:
        """See `Journal.check`."""
        if self.errors.get("check"):
            raise self.errors["check"].pop(0)

    def clear_rehearsal(self) -> None:
        """See `Journal.clear_rehearsal`."""
        self._stage.note("rehearsal cleared")
        if self.errors.get("clear"):
            raise self.errors["clear"].pop(0)


class Scene(Stage):
    """A job and the attempt at it."""

    def __init__(self, weight: int = 2, look_seconds: float = 5.0, world: Any = None, terms: Terms = LEASE) -> None:
        super().__init__(world)
        self.terms = terms
        self.store = StageStore(self)
        self.work, self.results, self.notices = StageWork(self), StageResults(self), StageNotices()
        self.journal = StageJournal(self)
        self.waiter = Waiter(self.runtime)
        self.lookout = Lookout(self.notices, self.runtime, look_seconds)
        self.slots = Slots(count=weight, owner=ME, store=self.store, runtime=self.runtime, terms=terms)
        self.weight = weight
        self.claim = QUEUE.claim("job")

    def begun(self, place: Place) -> None:
        """There is an attempt, given back."""
        put_lease(self.store, self.claim, body(OTHER, State.RELEASED, attempt=place.attempt.number))
        self.results.there = [place]

    def taker(self, owner: Owner = ME) -> Taker:
        """Of the host's worker."""
        return Taker(
            keys=QUEUE,
            slots=self.slots,
            owner=owner,
            store=self.store,
            runtime=self.runtime,
            terms=self.terms,
            measured=self.results.measured,
            on_deadline=self.work.tell_deadline,
        )

    @property
    def equipment(self) -> Equipment:
        """For an attempt."""
        return Equipment(
            keys=QUEUE,
            store=self.store,
            slots=self.slots,
            work=self.work,
            results=self.results,
            journal=self.journal,
            lookout=self.lookout,
            waiter=self.waiter,
            runtime=self.runtime,
            terms=self.terms,
        )

    def notice_at(self, seconds: float) -> None:
        """The host is to go, from then on."""

        def come() -> None:
            self.notices.found = NOTICE
            self.note("notice")

        self.at(seconds, come)

    def attempt(self, until: float = 20000) -> Ending:
        """Take the job, and run the attempt to its end."""
        ending: Ending = self.play(self.attempt_here, until)
        return ending

    def attempt_here(self) -> Ending:
        """The same, in the thread that calls."""
        self.lookout.start(self.waiter.wake)
        taken = self.taker().take(Job(id="job", api_weight=self.weight))
        assert isinstance(taken, Taken)
        try:
            return Attempt(self.equipment, taken).run()
        finally:
            self.lookout.stop()

    def slot_states(self) -> set[str]:
        """Of all slots."""
        return {self.store.lease(f"fleet/slots/{number}").state for number in range(self.weight)}
