"""What the real orchestrator and the real reports have of an instance: files, records in S3, trials, an adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from longhaul.benchmark import adapters
from longhaul.benchmark.attempts import Named
from longhaul.benchmark.case import Case
from longhaul.benchmark.checkpoint import Kind, Outcome
from longhaul.benchmark.errors import StoreError
from longhaul.benchmark.jobs import Config, JobTable, Plan, Run, Selector, plan_of
from longhaul.benchmark.jobs import Job as PlannedJob
from longhaul.benchmark.orchestrator import Assignment, Measured
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import Place, QueueKeys
from tests.simulation.workers.instance import Body, Instance
from tests.simulation.workers.ledger import Ledger
from tests.simulation.workers.queries import Queries, Query

TRIALS = "s3://bucket/stack/runs/run/trials/"
WARMUPS, REPETITIONS = 1, 3
TRIAL_SECONDS = (30.0, 110.0)
LANDS_AFTER = (0.05, 2.0, 15.0)  # a query's request; within what quiescing allows for
GAPS = (0.0, 470.0, 360.0)
RECORD_TRIES, READ_TRIES = 1, 4


def plan_for(job: str, api_weight: int, repetitions: int = REPETITIONS) -> Plan:
    """One case, measured a few times."""
    case = Case(name=job, adapter="simulated")
    run = Run(id="run", warmups=WARMUPS, repetitions=repetitions)
    table = JobTable(id=job)
    planned = PlannedJob(
        id=table.id,
        cases=Selector(ids=(case.id,), scales=("default",)),
        warmups=WARMUPS,
        repetitions=repetitions,
        api_weight=api_weight,
        weight=1.0,
    )
    return plan_of(Config(run=run, case=(case,)), [planned], job)


class Files:
    """The `Local` of an attempt, on the instance's disk."""

    def __init__(self, folder: dict[str, bytes]) -> None:
        self._folder = folder

    def write(self, name: str, body: bytes) -> None:
        """See `Local.write`."""
        self._folder[name] = body

    def append(self, name: str, line: bytes) -> None:
        """See `Local.append`."""
        self._folder[name] = self._folder.get(name, b"") + line + b"\n"


class Records:
    """The `Remote` of an attempt, and the `Source` of a job's report."""

    def __init__(self, instance: Instance, prefix: str, here: Mapping[str, bytes] | None = None) -> None:
        self._instance, self._prefix = instance, prefix
        self._here = here or {}  # what the host has of them, by name

    def put(self, name: str, body: bytes) -> str:
        """See `Remote.put`."""
        key = self._prefix + name
        return self._ask("PUT", key, lambda skew: self._instance.server.upload(key, body), RECORD_TRIES)

    def list(self) -> Sequence[Named]:
        """See `Source.list`."""
        listed = self._ask("LIST", self._prefix, partial(self._instance.server.list, self._prefix), READ_TRIES)
        return [Named(name=one.key[len(self._prefix) :], etag=one.etag) for one in listed.objects]

    def get(self, name: str) -> tuple[bytes, str]:
        """See `Source.get`."""
        key = self._prefix + name
        etag = self._instance.server.etag_of(self._here[name]) if name in self._here else None
        if etag is not None and etag == self._instance.server.objects[key].etag:  # as the listing has just said
            return self._here[name], etag
        found = self._ask("GET", key, partial(self._instance.server.get, key), READ_TRIES)
        if found is None:
            raise StoreError(f"{key} is not there")
        return found.body, found.etag

    def _ask(self, verb: str, key: str, carry_out: Callable[[int], Any], tries: int) -> Any:
        try:
            answer = self._instance.request(verb, key, carry_out, tries)
        except UnansweredError as error:
            raise StoreError(str(error)) from error
        if answer is None and verb == "PUT":
            raise StoreError(f"{verb} {key}: 409")
        return answer


class Service:
    """The adapter's side of the query service, as one host reaches it."""

    remote = True

    def __init__(self, instance: Instance, queries: Queries) -> None:
        self._instance, self._queries = instance, queries

    def cancel(self, ids: Sequence[str]) -> None:
        """See `Adapter.cancel`."""
        self._instance.request("CANCEL", "queries", lambda skew: self._queries.cancel(ids) or True, READ_TRIES)

    def quiesce(self, prefixes: Sequence[str], since: datetime) -> Sequence[adapters.Query]:
        """See `Adapter.quiesce`."""
        look = partial(self._queries.look, prefixes, since)
        found: Sequence[adapters.Query] = self._instance.request("LIST", "queries", lambda skew: look(), READ_TRIES)
        return found


class Trials:
    """An `Executor`: each trial is one query, whose end it awaits."""

    def __init__(self, instance: Instance, body: Body, queries: Queries, ledger: Ledger, place: Place) -> None:
        self._instance, self._body, self._queries, self._ledger = instance, body, queries, ledger
        self._place, self._runtime = place, instance.on(body)
        self._woken = self._runtime.event()
        self._interrupted = False

    def interrupt(self) -> None:
        """See `Executor.interrupt`."""
        self._interrupted = True
        self._woken.set()

    def run(self, assignment: Assignment) -> Measured:
        """See `Executor.run`."""
        instance, runtime, trial = self._instance, self._runtime, assignment.start
        choices = instance.choices
        runtime.sleep(0.2)  # its interpreter
        if self._interrupted or runtime.clock() >= instance.deadline:
            return Measured(outcome=Outcome.INTERRUPTED, error="stopped before its query")
        began = instance.world.now
        self._queries.begins(instance, trial)
        self._ledger.trial_begins(instance, self._place, trial)
        gap = instance.gap or GAPS[choices.pick(len(GAPS), instance.oddity)]
        if gap:  # S65: it stands still just before its query leaves, and nothing can stop that
            instance.world.note(f"{instance.name} stands still for {gap:.0f} s before its query leaves")
            instance.troubled, instance.gap = True, 0.0
            instance.pause(instance.world.now + gap)
            task = instance.world.task
            instance.world.wake(0, task, task.wait, None)  # `sleep` may pass where nothing happens meanwhile
            instance.world.block()
        if trial.kind is Kind.REPETITION and not self._body.doomed:
            instance.measuring = trial.trial
        delay = LANDS_AFTER[choices.pick(len(LANDS_AFTER), instance.oddity)]
        seconds = instance.query_seconds or TRIAL_SECONDS[choices.pick(len(TRIAL_SECONDS), instance.oddity)]
        instance.query_seconds = 0.0
        query = self._queries.start(instance, trial, delay, seconds)
        ended = self._await(query)
        instance.measuring = None
        self._ledger.trial_ends(trial, began, instance.world.now)
        if ended:
            return Measured(outcome=Outcome.SUCCESS, queries=(query.id,))
        if query.landed is None:  # its id is not known yet
            return Measured(outcome=Outcome.INTERRUPTED, error="interrupted")
        try:
            Service(instance, self._queries).cancel([query.id])
        except UnansweredError as error:
            return Measured(outcome=Outcome.INTERRUPTED, error=f"not cancelled: {error}", queries=(query.id,))
        return Measured(outcome=Outcome.INTERRUPTED, error="interrupted", queries=(query.id,))

    def _await(self, query: Query) -> bool:
        query.on_end = self._woken.set
        while query.ended is None and not self._interrupted:
            self._woken.wait(3600)
            self._woken.clear()
        return query.ended is not None and not self._interrupted


def attempt_prefix(keys: QueueKeys, place: Place) -> str:
    """Of an attempt's records."""
    return keys.attempt(place.job, place.attempt)
