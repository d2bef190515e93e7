"""One attempt of a job: trials in rounds, each between two records that outlive the host (F18, F19).

Synchronous, with everything that differs between a host and a simulation handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from longhaul.benchmark import checkpoint
from longhaul.benchmark.attempts import Named
from longhaul.benchmark.case import Case, Unit
from longhaul.benchmark.checkpoint import Kind, Local, Outcome, Record, Remote, Start, Times
from longhaul.benchmark.errors import StoreError
from longhaul.benchmark.jobs import Plan
from longhaul.benchmark.rounds import Task, left
from longhaul.fleet.keys import Attempt
from longhaul.fleet.runtime import Event, Runtime

SUCCEEDED, FAILED, STOPPED, INTERRUPTED = 0, 1, 75, 130  # exit codes
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0  # between two tries to store a record
PATIENCE_SECONDS = 600.0  # for that, when no deadline bounds it
MOST_REPEATS = 5  # of a trial that is disturbed each time

T = TypeVar("T")


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that is to be run now."""

    start: Start
    case: Case
    timeout_seconds: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial; see `Record`."""

    outcome: Outcome
    error: str | None = None
    queries: tuple[str, ...] = ()
    times: Times = Times()
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None
    rows: int | None = None
    checksum: str | None = None
    values: dict[str, Any] = {}


class Executor(Protocol):
    """Runs trials in processes of their own."""

    def run(self, assignment: Assignment) -> Measured:
        """Return when the trial is over, nothing of its processes is alive, and what it left unfinished is cancelled.

        INTERRUPTED if it was stopped, or met the deadline before a query.
        """

    def interrupt(self) -> None:
        """Stop the trial that runs and any that would follow. From any thread, also from the one that waits."""


@dataclass(kw_only=True)
class Orchestrator:
    """Of one attempt. `run` once."""

    plan: Plan
    attempt: Attempt
    runtime: Runtime
    local: Local
    remote: Remote | None  # None: nothing but this host's folder
    executor: Executor
    deadline: Callable[[], float]  # by the runtime's clock; infinity if there is none
    interrupted: Event  # set by `interrupt`
    environment: Mapping[str, Any]  # what is recorded about host and versions (B8)
    earlier: Mapping[str, Record] = field(default_factory=dict)  # of the attempts that it resumes, by trial id
    trials: str | None = None  # s3://…/ below which each trial has a prefix of its own
    strays: Callable[[datetime], Sequence[str]] | None = None  # new queries of earlier attempts, that ran since then
    shown: Callable[[Record], None] = lambda record: None  # a trial ended; for people

    def interrupt(self) -> None:
        """Stop the trial, write its record, end with 130. From any thread, but no signal handler."""
        self.interrupted.set()
        self.executor.interrupt()

    def run(self) -> int:
        """Measure what no earlier attempt has measured; the exit code is returned."""
        try:
            return self._run()
        except _End as end:
            self._tell("end", exit_code=end.exit_code, reason=str(end))
            return end.exit_code

    def _run(self) -> int:
        self._write(checkpoint.ENVIRONMENT, msgspec.json.format(msgspec.json.encode(dict(self.environment)), indent=2))
        work = left(self.plan, self.earlier)
        self._tell("begin", tasks=len(work.tasks), resumed=len(self.earlier))
        if work.tasks:
            self._look(self.runtime.wall())  # what ran before the first trial disturbs none
        for unit in work.unsupported:
            self._refuse(unit)
        refused: set[tuple[str, str]] = set()
        failures = 0
        for task in work.tasks:
            if task.unit.key in refused:
                continue
            outcome = self._measure(task)
            if outcome is Outcome.UNSUPPORTED:
                refused.add(task.unit.key)
            elif outcome is not Outcome.SUCCESS and task.kind is Kind.REPETITION:
                failures += 1
        code = FAILED if failures else SUCCEEDED
        self._tell("end", exit_code=code, failures=failures)
        return code

    # ---- one trial ---------------------------------------------------------------------------------------------------
    def _measure(self, task: Task) -> Outcome:
        """Run a trial, and again while queries of an earlier attempt disturb it (F20)."""
        for again in range(MOST_REPEATS + 1):
            record = self._trial(task, again)
            if record.outcome is not Outcome.DISTURBED:
                break
        return record.outcome

    def _trial(self, task: Task, again: int) -> Record:
        start = self._start(task.unit, task.kind, task.number, again)
        self._write(checkpoint.start_name(start.trial), checkpoint.encode(start))
        self._check()
        self._tell("trial_start", trial=start.trial)
        before = self.runtime.clock()
        case = task.unit.case
        measured = self.executor.run(
            Assignment(start=start, case=case, timeout_seconds=self.plan.timeout_seconds(case))
        )
        record = self._record(start, measured, self.runtime.clock() - before)
        if record.outcome is Outcome.INTERRUPTED:
            self._hand_over(record)
        self._keep(record)
        return record

    def _start(self, unit: Unit, kind: Kind, number: int, again: int = 0) -> Start:
        case, scale = unit.key
        generation, attempt = self.attempt.generation, self.attempt.number
        trial = checkpoint.trial_id(case, scale, kind, number, generation=generation, attempt=attempt, again=again)
        return Start(
            run=self.plan.run.id,
            job=self.plan.job.id,
            trial=trial,
            case=case,
            scale=scale,
            kind=kind,
            number=number,
            generation=generation,
            attempt=attempt,
            again=again,
            adapter=unit.case.adapter,
            prefix=None if self.trials is None else f"{self.trials}{trial}/",
            started=self.runtime.wall(),
        )

    def _record(self, start: Start, measured: Measured, seconds: float) -> Record:
        disturbed_by: tuple[str, ...] = ()
        outcome = measured.outcome
        if outcome not in (Outcome.INTERRUPTED, Outcome.UNSUPPORTED):
            disturbed_by = self._look(start.started)
            outcome = Outcome.DISTURBED if disturbed_by else outcome
        return Record(
            **msgspec.structs.asdict(start),
            **{**msgspec.structs.asdict(measured), "outcome": outcome},
            ended=self.runtime.wall(),
            seconds=seconds,
            disturbed_by=disturbed_by,
        )

    def _look(self, since: datetime) -> tuple[str, ...]:
        """Queries of earlier attempts that ran since the last look. What nobody could look for may have run (I5)."""
        strays = self.strays
        if strays is None:
            return ()
        return self._insist(
            lambda: tuple(strays(since)),
            Exception,  # an adapter's
            "not_looked",
            "queries of earlier attempts could not be looked for",
        )

    def _refuse(self, unit: Unit) -> None:
        """Record once, over all attempts, that a case cannot be measured (S10)."""
        start = self._start(unit, Kind.REPETITION, 0)
        self._keep(self._record(start, Measured(outcome=Outcome.UNSUPPORTED, error=unit.case.unsupported), 0.0))

    def _keep(self, record: Record) -> None:
        body = self._note(record)
        self._store(checkpoint.record_name(record.trial), body)

    def _hand_over(self, record: Record) -> NoReturn:
        """A trial was stopped: its record is written here, stored if that goes at once, and nothing follows."""
        body, record_name = self._note(record), checkpoint.record_name(record.trial)
        if self.remote is not None and not self._over():
            try:
                self._stored(record_name, self.remote.put(record_name, body))
            except StoreError as error:
                self._tell("not_stored", name=record.trial, error=str(error))
        if self.interrupted.is_set():
            raise _End(INTERRUPTED, "interrupted")
        raise _End(STOPPED, record.error or "the deadline is over")

    def _note(self, record: Record) -> bytes:
        """Write a record on the host; the fleet's last upload takes it along whatever happens next (S53)."""
        body = checkpoint.encode(record)
        self.local.write(checkpoint.record_name(record.trial), body)
        self.local.append(checkpoint.TRIALS, body)
        self._tell("trial_end", trial=record.trial, outcome=record.outcome)
        self.shown(record)
        return body

    # ---- what has to be true before anything starts ------------------------------------------------------------------
    def _write(self, name: str, body: bytes) -> None:
        self._check()
        self.local.write(name, body)
        self._store(name, body)

    def _store(self, name: str, body: bytes) -> None:
        """Store it before anything else starts; wait for that until the deadline. It is no failure of the job (S44)."""
        if self.remote is None:
            return
        remote = self.remote
        etag = self._insist(lambda: remote.put(name, body), StoreError, "not_stored", f"{name} could not be stored")
        self._stored(name, etag)

    def _stored(self, name: str, etag: str) -> None:
        self.local.append(checkpoint.STORED, msgspec.json.encode(Named(name=name, etag=etag)))

    def _insist(self, call: Callable[[], T], errors: type[Exception], event: str, trouble: str) -> T:
        """Call until it succeeds, or until the deadline: nothing goes on without it."""
        given_up = self.runtime.clock() + PATIENCE_SECONDS
        wait = FIRST_WAIT_SECONDS
        while True:
            if self._over():
                raise _End(STOPPED, f"the deadline is over, and {trouble}")
            try:
                return call()  # once also when interrupted: what was measured is worth a try
            except errors as error:
                reason = f"{trouble}: {error or type(error).__name__}"
                self._tell(event, error=reason)
            self._check()
            now = self.runtime.clock()
            deadline = self.deadline()
            until = deadline if deadline != float("inf") else given_up
            if now >= until:
                raise _End(STOPPED, reason)
            self.interrupted.wait(min(self.runtime.jittered(wait), until - now))
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    def _check(self) -> None:
        """End if somebody wants it, or if another may own the job by now (F19, S65)."""
        if self.interrupted.is_set():
            raise _End(INTERRUPTED, "interrupted")
        if self._over():
            raise _End(STOPPED, "the deadline is over")

    def _over(self) -> bool:
        return self.runtime.clock() >= self.deadline()

    def _tell(self, event: str, **values: Any) -> None:
        said = {"at": self.runtime.wall(), "event": event, **values}
        self.local.append(checkpoint.EVENTS, msgspec.json.encode(said))


class _End(Exception):  # noqa: N818  no error: the attempt is over
    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
