"""A service that runs queries: they start late, outlive whoever sent them, and end by themselves or are stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from longhaul.benchmark import adapters
from longhaul.benchmark.checkpoint import Start
from tests.simulation.server import EPOCH
from tests.simulation.workers.instance import Instance
from tests.simulation.world import ViolationError, World


class Query:
    """One query of a trial."""

    def __init__(self, number: int, instance: Instance, trial: Start) -> None:
        self.id, self.instance, self.trial = f"q-{number}", instance, trial
        self.landed: float | None = None
        self.ended: float | None = None
        self.on_end: Callable[[], None] = lambda: None

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.landed is not None and self.ended is None


class Queries:
    """Every query of a schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: list[Query] = []

    def start(self, instance: Instance, trial: Start, delay: float, seconds: float) -> Query:
        """A request is on its way; whatever becomes of its sender, it lands."""
        query = Query(len(self.all), instance, trial)
        self.all.append(query)

        def land() -> None:
            query.landed = self._world.now
            self._world.note(f"    {query.id} runs for {trial.trial} of {instance.name}")
            self._world.at(seconds, lambda: self._end(query))

        self._world.at(delay, land)
        return query

    def _end(self, query: Query) -> None:
        if query.ended is None:
            query.ended = self._world.now
            query.on_end()

    def cancel(self, ids: Sequence[str]) -> None:
        """Stop those that run."""
        for query in self.all:
            if query.id in ids and query.running:
                self._world.note(f"    {query.id} is stopped")
                self._end(query)

    def look(self, prefixes: Sequence[str], since: datetime) -> Sequence[adapters.Query]:
        """See `Adapter.quiesce`."""
        from_when = (since - EPOCH).total_seconds()
        found = []
        for query in self.all:
            if query.landed is None or (query.ended is not None and query.ended < from_when):
                continue
            prefix = next((one for one in prefixes if (query.trial.prefix or "").startswith(one)), None)
            if prefix is not None:
                found.append(adapters.Query(id=query.id, prefix=prefix, running=query.running))
        self.cancel([one.id for one in found])
        return found

    # ---- invariants ------------------------------------------------------------------------------------------------
    def begins(self, instance: Instance, trial: Start) -> None:
        """A trial starts here: no earlier query of this host may run (I5)."""
        for query in self.all:
            if query.running and query.instance is instance:
                beside = f"{query.id} of {query.trial.trial}"
                raise ViolationError(f"I5 {trial.trial} starts on {instance.name} beside {beside}")

    def beside(self, trial: Start, begin: float, end: float) -> Query | None:
        """A query of another attempt at the job that ran while the trial did."""
        mine = (trial.generation, trial.attempt)
        for query in self.all:
            theirs = (query.trial.generation, query.trial.attempt)
            if query.landed is None or query.trial.job != trial.job or theirs == mine:
                continue
            if query.landed < end and (query.ended is None or query.ended > begin):
                return query
        return None
