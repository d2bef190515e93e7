"""A host in memory: files, a store that may refuse, trials that end as told, time that moves when somebody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from longhaul.benchmark import checkpoint
from longhaul.benchmark.attempts import etag_of
from longhaul.benchmark.checkpoint import Outcome, Record, Times, Trials
from longhaul.benchmark.errors import StoreError
from longhaul.benchmark.jobs import Plan, plan, plan_of
from longhaul.benchmark.orchestrator import Assignment, Measured, Orchestrator
from longhaul.fleet.keys import Attempt
from longhaul.fleet.runtime import Runtime

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
CONFIG = """
[run]
id = "run-1"
warmups = 1
repetitions = 4
[[case]]
name = "a"
parameters = { command = ["a"] }
[[case]]
name = "b"
parameters = { command = ["b"] }
[[job]]
id = "job-1"
"""


def plan_for(config: str = CONFIG, job: str = "job-1") -> Plan:
    """Plan a job of a configuration."""
    documents = plan(config.encode(), demand=lambda case: 0, versions={})
    return plan_of(documents.config, documents.jobs, job)


def succeed(assignment: Assignment) -> Measured:
    """Measure something that depends on nothing but the repetition."""
    seconds = float(1 + assignment.start.number)
    return Measured(outcome=Outcome.SUCCESS, times=Times(execute=seconds, total=seconds), peak_rss_bytes=1000)


@dataclass(kw_only=True)
class Host:
    """Everything an orchestrator is given, and what became of it, in order."""

    behave: Callable[[Assignment], Measured] = succeed
    refuse: Callable[[str], bool] = lambda name: False  # whether storing it fails
    deadline: float = float("inf")
    now: float = 1000.0
    log: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    orchestrator: Orchestrator | None = None

    # ---- Local, Remote, Executor
    def write(self, name: str, body: bytes) -> None:
        """Of `Local`."""
        self.log.append(f"write {name}")
        self.files[name] = body

    def append(self, name: str, line: bytes) -> None:
        """Of `Local`."""
        self.files[name] = self.files.get(name, b"") + line + b"\n"

    def put(self, name: str, body: bytes) -> str:
        """Of `Remote`."""
        self.now += 0.1
        if self.refuse(name):
            self.log.append(f"refuse {name}")
            raise StoreError("503")
        self.log.append(f"put {name}")
        self.stored[name] = body
        return etag_of(body)

    def run(self, assignment: Assignment) -> Measured:
        """Of `Executor`."""
        self.log.append(f"run {assignment.start.trial}")
        self.now += 1
        return self.behave(assignment)

    def interrupt(self) -> None:
        """Of `Executor`."""
        self.log.append("interrupt")

    # ---- Runtime
    def wait(self, seconds: float) -> None:
        """Let time go on."""
        self.log.append("wait")
        self.now += seconds

    def runtime(self) -> Runtime:
        """Of this host."""
        return Runtime(
            clock=lambda: self.now,
            wall=lambda: EPOCH + timedelta(seconds=self.now),
            sleep=self.wait,
            token=lambda: "",
            fraction=lambda: 0.5,
            lock=threading.Lock,
            event=lambda: Event(self),
            spawn=lambda what: None,
        )

    # ---- tests
    def orchestrate(
        self, plan: Plan, attempt: int = 1, earlier: Sequence[Host] = (), *, remote: bool = True, **others: Any
    ) -> int:
        """Run one attempt; what the host had in memory of another attempt is forgotten."""
        self.orchestrator = Orchestrator(
            plan=plan,
            attempt=Attempt(generation=0, number=attempt),
            runtime=self.runtime(),
            local=self,
            remote=self if remote else None,
            executor=self,
            deadline=lambda: self.deadline,
            interrupted=Event(self),
            environment={"host": "h"},
            earlier=records_of(*earlier),
            **others,
        )
        return self.orchestrator.run()

    def ran(self) -> list[str]:
        """Trials, without their attempts and hashes."""
        return [_short(line) for line in self.log if line.startswith("run ")]


class Event(threading.Event):
    """An event whose waiting takes no time."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host

    def wait(self, timeout: float | None = None) -> bool:
        """See `Event.wait`."""
        assert timeout is not None, "nothing waits for ever"
        if not self.is_set():
            self.host.wait(timeout)
        return self.is_set()


def records_of(*hosts: Host) -> Mapping[str, Record]:
    """What earlier attempts recorded, as their folders say."""
    return trials_of(*hosts).records


def trials_of(*hosts: Host) -> Trials:
    """Start records and records of attempts."""
    return Trials.read(
        (name, body) for host in hosts for name, body in host.files.items() if name.startswith(checkpoint.FOLDER)
    )


def events_of(host: Host) -> list[dict[str, Any]]:
    """Lines of events.jsonl."""
    return [msgspec.json.decode(line) for line in host.files[checkpoint.EVENTS].splitlines()]


def _short(line: str) -> str:
    case, scale, rest, attempt = line.removeprefix("run ").split(".")
    suffix = attempt[attempt.index("-", attempt.index("a")) :] if attempt.count("-") > 1 else ""
    return f"{case.rsplit('-', 1)[0]} {rest}{suffix}" if scale == "default" else f"{case}.{scale} {rest}"
