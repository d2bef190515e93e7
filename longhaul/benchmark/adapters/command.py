"""Measures any command line: how long it takes, and what it says on its last line (B2).

Parameters: `command`, a list in which `{scale}` and `{trial}` are replaced; `environment`, a table. Exit code 0 is a
success. If the last line of stdout is a JSON object, its `rows`, `checksum`, `times`, `unsupported` and `error` are
taken, and the rest is kept as values. Of stdout the last MiB is read and kept in the log: neither a case's time nor its
memory is to tell of what the harness does with its output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from longhaul.benchmark.adapters import Consumed, FailedError, Query, Trial, UnsupportedError

if TYPE_CHECKING:
    from datetime import datetime

_PHASES = ("setup", "execute", "consume", "total")
_KNOWN = {"command", "environment"}
KEPT_BYTES = 1 << 20  # of the output of one trial
LONGEST_SECONDS = 1e9  # that a command may say it took; more is no time


class CommandAdapter:
    """An `Adapter` for command lines. What they start dies with the trial, so nothing of it is remote."""

    remote = False

    def setup(self, trial: Trial) -> None:
        """Build the command line and its environment."""
        command, environment = _checked(trial.parameters)
        named = {"{scale}": trial.scale, "{trial}": trial.id}
        self._command = [_filled(word, named) for word in command]
        self._environment = {
            **os.environ,
            "LONGHAUL_SCALE": trial.scale,
            "LONGHAUL_TRIAL": trial.id,
            **({"LONGHAUL_TRIAL_PREFIX": trial.prefix} if trial.prefix else {}),
            **{name: str(value) for name, value in environment.items()},
        }
        self._output = _file()
        self._may_query = trial.may_query

    def execute(self) -> None:
        """Run the command to its end."""
        self._may_query()
        try:
            ended = subprocess.run(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                check=False,
            )
        except OSError as error:
            raise FailedError(f"{self._command[0]}: {error.strerror or error}") from error
        self._exit_code = ended.returncode

    def consume(self) -> Consumed:
        """Read the exit code and the last line."""
        left_out = max(0, self._output.seek(0, os.SEEK_END) - KEPT_BYTES)
        self._output.seek(left_out)
        output = self._output.read(KEPT_BYTES)
        if left_out:
            sys.stdout.buffer.write(f"[{left_out} bytes of output left out]\n".encode())
        sys.stdout.buffer.write(output)  # to the attempt's log
        said = _last_object(output)
        if reason := said.pop("unsupported", None):
            raise UnsupportedError(str(reason))
        if (reason := said.pop("error", None)) or self._exit_code != 0:
            raise FailedError(str(reason or _ended(self._exit_code)))
        times = _times(said.pop("times", None) or {})
        rows, checksum = said.pop("rows", None), said.pop("checksum", None)
        return Consumed(
            rows=rows if isinstance(rows, int) else None,
            checksum=None if checksum is None else str(checksum),
            values=said,
            times=times,
        )

    def cancel(self, queries: Sequence[str]) -> None:
        """Nothing of a command outlives its trial."""

    def quiesce(self, prefixes: Sequence[str], since: datetime) -> Sequence[Query]:
        """Nothing of a command outlives its trial."""
        return ()

    def demand(self, parameters: Mapping[str, Any]) -> int:
        """A command needs no API slot unless its case says so (`api_weight`)."""
        _checked(parameters)
        return 0


def _checked(parameters: Mapping[str, Any]) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Command and environment; `FailedError` says what is wrong with them."""
    command, environment = parameters.get("command"), parameters.get("environment", {})
    if unknown := sorted(parameters.keys() - _KNOWN):
        raise FailedError(f"parameters.{unknown[0]} is unknown; there are command and environment")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise FailedError("parameters.command must be a list of texts, the program first")
    if not isinstance(environment, dict):
        raise FailedError("parameters.environment must be a table")
    if any(not name or "=" in name for name in environment):
        raise FailedError("parameters.environment: a name is not empty, and has no =")
    texts = [*command, *environment, *map(str, environment.values())]
    if any("\0" in text for text in texts):
        raise FailedError("parameters: no program can be given a zero byte")
    return command, environment


def _times(said: Any) -> Mapping[str, float]:
    """Those that a command may give; `FailedError` if they are no times, which would spoil the report."""
    if not isinstance(said, dict):
        raise FailedError(f"its last line says times = {said!r}, which is no object of seconds")
    times = {name: said[name] for name in _PHASES if said.get(name) is not None}
    for name, seconds in times.items():
        if not isinstance(seconds, int | float) or not 0 <= seconds < LONGEST_SECONDS:
            raise FailedError(f"its last line says times.{name} = {seconds!r}, which is no number of seconds")
    return {name: float(seconds) for name, seconds in times.items()}


def _file() -> IO[bytes]:
    """Return what takes the output: no pipe, which whatever the command leaves in the background would keep open."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b", buffering=0)
    from tempfile import TemporaryFile  # slow to import

    return TemporaryFile(buffering=0)


def _filled(word: str, named: Mapping[str, str]) -> str:
    for name, value in named.items():
        word = word.replace(name, value)
    return word


def _last_object(output: bytes) -> dict[str, Any]:
    """The JSON object on the last line that is not empty; an empty one if there is none."""
    lines = output.strip().rsplit(b"\n", 1)
    try:
        value = json.loads(lines[-1])
    except (ValueError, RecursionError):  # also of text that is not UTF-8
        return {}
    return value if isinstance(value, dict) else {}


def _ended(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"ended by signal {-exit_code}"
