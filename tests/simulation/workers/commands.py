"""The three commands of the benchmark as processes of a simulated instance, with their real code inside (F11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from longhaul.benchmark import attempts, quiesce
from longhaul.benchmark.checkpoint import FOLDER, STORED
from longhaul.benchmark.checkpoint import Trials as Checkpoints
from longhaul.benchmark.errors import BenchmarkError
from longhaul.benchmark.jobs import Plan
from longhaul.benchmark.merge import Expected, merge
from longhaul.benchmark.orchestrator import Orchestrator
from longhaul.fleet.keys import Place, QueueKeys
from longhaul.fleet.lease import Record
from longhaul.fleet.work import Merged, Unconfirmed
from tests.simulation.workers.bench import REPETITIONS, TRIALS, Files, Records, Service, Trials, attempt_prefix
from tests.simulation.workers.instance import Instance, unused
from tests.simulation.workers.ledger import Counted, Ledger
from tests.simulation.workers.queries import Queries

SUMMARY, MERGED, WORD = "job-summary.json", "merged.json", "unconfirmed.json"
QUIESCE_SECONDS = 300.0
DIES = ("at once", "after 5 s", "not in time")


class Command:
    """A `Process`: it runs, obeys SIGINT or not, and dies sooner or later."""

    def __init__(self, instance: Instance, name: str, on_exit: Callable[[], None]) -> None:
        self.instance, self.name = instance, name
        self.exit_code: int | None = None
        self.body = instance.body()
        self.runtime = instance.on(self.body)
        self.on_interrupt: Callable[[], None] | None = None
        self._on_exit = on_exit

    def start(self, main: Callable[[], int]) -> Command:
        """Let it run."""
        self.instance.world.note(f"{self.instance.name} {self.name}")
        self.instance.world.spawn(self.body, lambda: self._exit(main()))
        return self

    def _exit(self, code: int) -> None:
        if self.exit_code is None:
            self.instance.world.note(f"{self.instance.name} {self.name} ended: {code}")
            self.exit_code = code
            self._on_exit()

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        deaf = self.instance.choices.pick(2, self.instance.oddity)
        if self.on_interrupt is not None and self.exit_code is None and not deaf:
            self.instance.world.spawn(self.body, self.on_interrupt)

    def kill(self, until: float) -> bool:
        """See `Process.kill`."""
        self.instance.measuring, self.body.doomed = None, True
        if self.exit_code is None:
            how = self.instance.choices.pick(3, self.instance.oddity)
            if how:
                self.instance.troubled = True
                self.instance.world.note(f"{self.instance.name} {self.name} dies {DIES[how]}")
                left = until - self.runtime.clock()
                self.runtime.sleep(left if how == 2 else min(5.0, left))
                if how == 2:
                    return False
        self.body.paused_until = math.inf
        self._exit(-9)
        return True


class Commands:
    """The `Work` of a worker."""

    def __init__(
        self, instance: Instance, keys: QueueKeys, plans: Mapping[str, Plan], queries: Queries, ledger: Ledger
    ) -> None:
        self._instance, self._keys, self._plans = instance, keys, plans
        self._queries, self._ledger = queries, ledger

    def run(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Command:
        """See `Work.run`."""
        instance, plan = self._instance, self._plans[place.job]
        command = Command(instance, f"run {_named(place)}", on_exit)
        resumed = self._checkpoints(earlier)
        generations = [one.attempt.generation for one in earlier]
        strays = None
        if place.attempt.number > 1:
            first = min(generations, default=place.attempt.generation)
            strays = quiesce.strays(plan, place.attempt, TRIALS, first, self._service)
        orchestrator = Orchestrator(
            plan=plan,
            attempt=place.attempt,
            runtime=command.runtime,
            local=Files(instance.folder(place)),
            remote=Records(instance, attempt_prefix(self._keys, place)),
            executor=Trials(instance, command.body, self._queries, self._ledger, place),
            deadline=lambda: instance.deadline,
            interrupted=command.runtime.event(),
            environment={"host": instance.id},
            earlier=resumed.records,
            trials=TRIALS,
            strays=strays,
        )
        command.on_interrupt = orchestrator.interrupt
        return command.start(orchestrator.run)

    def quiesce(self, places: Sequence[Place], *, on_exit: Callable[[], None]) -> Command:
        """See `Work.quiesce`."""
        command = Command(self._instance, f"quiesce {' '.join(map(_named, places))}", on_exit)
        folder = self._instance.folder(places[-1])
        folder.pop(WORD, None)
        trials = self._checkpoints(places)

        def main() -> int:
            word = quiesce.quiesce(trials, self._service, command.runtime, seconds=QUIESCE_SECONDS, say=unused)
            if word is None:
                return 0
            folder[WORD] = msgspec.json.encode(word)
            return 75

        return command.start(main)

    def report(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Command:
        """See `Work.report`."""
        command = Command(self._instance, f"report {_named(place)}", on_exit)
        first = min(one.attempt.generation for one in (place, *earlier))
        prefix = f"g{place.attempt.generation}/attempt-{place.attempt.number}/"
        here = {prefix + name: body for name, body in self._instance.folder(place).items()}
        source: attempts.Source = Records(self._instance, self._keys.results(place.job), here)
        if place.attempt.number == 1:
            source = attempts.FirstAttempt(source, place.attempt, self._instance.folder(place).get(STORED, b""))

        def main() -> int:
            try:
                generations = range(first, place.attempt.generation + 1)
                read = attempts.read(source, generations=generations, until=place.attempt)
                self._publish(place, read)
            except BenchmarkError:
                return 1
            return 0

        return command.start(main)

    def _publish(self, place: Place, read: attempts.Read) -> None:
        plan = self._plans[place.job]
        expected = [Expected(case=case, scale=scale, repetitions=REPETITIONS) for case, scale in _units(plan)]
        outcomes = merge(read.trials, expected)
        prefix = self._keys.results(place.job)
        records = tuple(Record(key=prefix + one.name, etag=one.etag) for one in read.records)
        counted = Counted(
            trials=tuple(record.trial for one in outcomes for record in one.counted),
            records=tuple((one.key, one.etag) for one in records),
            failed=sum(one.without_success for one in outcomes),
        )
        folder = self._instance.folder(place)
        folder[SUMMARY] = msgspec.json.encode(counted)
        folder[MERGED] = msgspec.json.encode(Merged(records=records, files=(SUMMARY,), failed=counted.failed))

    def merged(self, place: Place) -> Merged:
        """See `Work.merged`."""
        return msgspec.json.decode(self._instance.folder(place)[MERGED], type=Merged)

    def unconfirmed(self, places: Sequence[Place]) -> Unconfirmed:
        """See `Work.unconfirmed`."""
        word = self._instance.folder(places[-1]).get(WORD)
        if word is not None:
            return msgspec.json.decode(word, type=Unconfirmed)
        return Unconfirmed(queries=(), prefixes=tuple(f"{TRIALS}{_named(one)}" for one in places))

    def tell_deadline(self, deadline: float) -> None:
        """See `Work.tell_deadline`."""
        self._instance.deadline = deadline

    def _service(self, name: str) -> Service:
        del name
        return Service(self._instance, self._queries)

    def _checkpoints(self, places: Sequence[Place]) -> Checkpoints:
        return Checkpoints.read(
            (name, body)
            for place in places
            for name, body in self._instance.folder(place).items()
            if name.startswith(FOLDER)
        )


def _units(plan: Plan) -> Sequence[tuple[str, str]]:
    return [unit.key for unit in plan.units]


def _named(place: Place) -> str:
    return f"{place.job}/g{place.attempt.generation}/{place.attempt.number}"
