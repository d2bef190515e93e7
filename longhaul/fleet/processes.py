"""The commands of a benchmark as real processes: each a group of its own that can be seen to be dead (F11, S12)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.descendants import HOME, MARK, kill_all
from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.machine import Identity
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.work import Merged, Process, Unconfirmed

COMMAND = (sys.executable, "-m", "longhaul.cli", "benchmark")
MANIFEST = "manifest.json"  # of the queue
LOG, MERGED, WORD = "log.txt", "merged.json", "unconfirmed.json"  # in an attempt's folder
CHECKPOINT, START = "checkpoint", "-start.json"
LOOK_SECONDS = 0.02  # between two looks whether the killed are dead


class Group:
    """A `Process`: a command in a session of its own, with everything that it started.

    Its leader is not reaped before all of it is dead, so that no other process can get its number and be killed in
    its place.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        runtime: Runtime,
        on_exit: Callable[[], None],
    ) -> None:
        self._runtime, self._on_exit = runtime, on_exit
        self._mark = runtime.token()
        with log.open("ab") as output:
            self._leader = subprocess.Popen(
                arguments,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environment, MARK: self._mark, "PYTHONUNBUFFERED": "1"},
            )
        self._exit_code: int | None = None
        self._dead = False  # with all of its group: the number may be another's from then on
        runtime.spawn(self._wait)

    @property
    def exit_code(self) -> int | None:
        """See `Process.exit_code`."""
        return self._exit_code

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        if self._exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._leader.pid, signal.SIGINT)

    def kill(self, until: float) -> bool:
        """See `Process.kill`. On Linux it also finds descendants that made a session of their own."""
        while not self._dead:
            if kill_all(self._leader.pid, self._mark):
                self._dead = True
                self._leader.poll()
            elif self._runtime.clock() >= until:
                return False
            else:
                self._runtime.sleep(LOOK_SECONDS)
        return True

    def _wait(self) -> None:
        code = None
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # it was killed and reaped already
                ended = os.waitid(os.P_PID, self._leader.pid, os.WEXITED | os.WNOWAIT)
                if ended is not None:
                    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        self._exit_code = self._leader.wait() if code is None else code
        self._on_exit()


class _Manifest(msgspec.Struct, frozen=True):
    run: str


class _Word(msgspec.Struct, frozen=True):
    """What a quiescing leaves when it cannot confirm."""

    queries: tuple[str, ...]
    prefixes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The `Work` of one queue on a host: `longhaul benchmark run`, `quiesce` and `report`."""

    keys: QueueKeys
    location: Location  # of the stack
    directory: Directory
    deadline: DeadlineFile
    runtime: Runtime
    identity: Identity
    command: Sequence[str] = COMMAND

    def run(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """See `Work.run`. What lies in the folder already is of another queue: this attempt has only just begun."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.directory.attempt(place))
        checkpoint = f"{self.location}{self.keys.attempt(place.job, place.attempt)}"
        arguments = [*_of("run", self.directory, place), "--checkpoint", checkpoint]
        for one in earlier:
            arguments += ["--resume", str(self.directory.attempt(one))]
        arguments += ["--deadline", str(self.directory.deadline), "--trials", self._trials]
        return self._start(arguments, place, on_exit)

    def quiesce(self, places: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """See `Work.quiesce`. What it says goes to the log of the last attempt, its word into that one's folder."""
        last = places[-1]
        folder = self.directory.attempt(last)
        folder.mkdir(parents=True, exist_ok=True)
        word = folder / WORD
        word.unlink(missing_ok=True)  # of an earlier quiescing
        arguments = ["quiesce", "--queue-directory", str(self.directory.queue), "--job", last.job, "--word", str(word)]
        return self._start([*arguments, *(str(self.directory.attempt(one)) for one in places)], last, on_exit)

    def report(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """See `Work.report`."""
        first = min(one.attempt.generation for one in (place, *earlier))
        (self.directory.attempt(place) / MERGED).unlink(missing_ok=True)
        results = f"{self.location}{self.keys.results(place.job)}"
        arguments = [*_of("report", self.directory, place), "--results", results]
        return self._start([*arguments, "--generations", f"{first}..{place.attempt.generation}"], place, on_exit)

    def merged(self, place: Place) -> Merged:
        """See `Work.merged`."""
        path = self.directory.attempt(place) / MERGED
        try:
            merged = msgspec.json.decode(path.read_bytes(), type=Merged)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} is not what a report leaves: {error}") from error
        if not merged.files:
            raise ValueError(f"{path} names no summary")
        return merged

    def unconfirmed(self, places: Sequence[Place]) -> Unconfirmed:
        """See `Work.unconfirmed`."""
        try:
            word = msgspec.json.decode((self.directory.attempt(places[-1]) / WORD).read_bytes(), type=_Word)
        except (OSError, msgspec.DecodeError):
            return Unconfirmed(queries=(), prefixes=tuple(prefix for one in places for prefix in self._left_by(one)))
        return Unconfirmed(queries=word.queries, prefixes=word.prefixes)

    def tell_deadline(self, deadline: float) -> None:
        """See `Work.tell_deadline`."""
        self.deadline.write(deadline)

    @property
    def _trials(self) -> str:
        """Where trials of the queue's run leave their outputs, by the documents that lie in the directory."""
        path = self.directory.queue / MANIFEST
        try:
            run = msgspec.json.decode(path.read_bytes(), type=_Manifest).run
        except msgspec.DecodeError as error:
            raise OSError(f"{path} names no run: {error}") from error
        return f"{self.location}runs/{run}/trials/"

    @property
    def _environment(self) -> dict[str, str]:
        host = self.identity  # what a command cannot find out by itself, for the record (B8)
        return {
            "LONGHAUL_INSTANCE": host.instance,
            "LONGHAUL_INSTANCE_TYPE": host.instance_type,
            "LONGHAUL_ZONE": host.zone,
            HOME: str(self.directory.root),
        }

    def _left_by(self, place: Place) -> list[str]:
        """Prefixes of all trials that an attempt began, as far as this host knows."""
        names = [path.name for path in (self.directory.attempt(place) / CHECKPOINT).glob(f"*{START}")]
        try:
            trials = self._trials
        except OSError:
            return [f"{self.location}runs/"] if names else []
        return [f"{trials}{name.removesuffix(START)}/" for name in sorted(names)]

    def _start(self, arguments: Sequence[str], place: Place, on_exit: Callable[[], None]) -> Process:
        folder = self.directory.attempt(place)
        folder.mkdir(parents=True, exist_ok=True)
        return Group(
            [*self.command, *arguments],
            environment=self._environment,
            folder=self.directory.root,
            log=folder / LOG,
            runtime=self.runtime,
            on_exit=on_exit,
        )


def _of(verb: str, directory: Directory, place: Place) -> list[str]:
    attempt = place.attempt
    named = ["--queue-directory", str(directory.queue), "--job", place.job]
    return [verb, *named, "--attempt", attempt_name(attempt), "--output", str(directory.attempt(place))]


def attempt_name(attempt: Attempt) -> str:
    """Return it as commands and folders name it."""
    return f"g{attempt.generation}/attempt-{attempt.number}"
