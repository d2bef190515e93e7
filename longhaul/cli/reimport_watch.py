"""`watch`: follow a run until it ends; a live bar on a terminal, plain lines elsewhere (R21)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from longhaul.cli.environment import Environment, environment_options
from longhaul.cli.output import lasting, put, put_json, say
from longhaul.cli.reimport_options import run_argument, runs_of
from longhaul.cli.reimport_steer import counts_line, map_run_json, run_json
from longhaul.reimport.pace import Pace
from longhaul.reimport.runs import RUNNING, MapRun, Run, Runs

LEAST_INTERVAL_SECONDS = 2.0  # the map-run calls refill once a second for the whole account
_QUIET = timedelta(seconds=30)  # a plain line at least so often


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A run at one moment."""

    at: datetime
    run: Run
    map_run: MapRun | None  # the newest; none while the list is being read
    per_minute: float | None
    remaining: timedelta | None

    @property
    def over(self) -> bool:
        """Whether the run has ended and its jobs too."""
        return self.run.status != RUNNING and (self.map_run is None or self.map_run.status != RUNNING)


EPILOG = """\b
Exit codes:
    0  the run SUCCEEDED
    1  it did not, or watching failed
    2  a wrong argument
    3  the environment
  130  you left with Ctrl-C; the run goes on
"""


@click.command(epilog=EPILOG)
@run_argument
@click.option(
    "--interval",
    type=click.FloatRange(min=LEAST_INTERVAL_SECONDS),
    default=LEAST_INTERVAL_SECONDS,
    show_default=True,
    help="Seconds between two looks; 2 at least.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the run as JSON when it has ended.")
@environment_options
def watch(environment: Environment, run_name: str, interval: float, as_json: bool) -> None:
    """Follow a run until it ends. Exits with 0 if it SUCCEEDED, else 1; leaving it leaves the run alone."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    console = Console(stderr=True)
    try:
        sights = look(runs, run, interval)
        last = _draw(console, sights) if console.is_terminal else _print(sights)
    except KeyboardInterrupt:
        say(f"\nNo longer watching; {run.name} goes on.")
        sys.exit(130)
    if as_json:
        put_json({**run_json(environment, last.run), "map_run": map_run_json(last.map_run) if last.map_run else None})
    else:
        put(f"{last.run.name}: {last.run.status}{f', {counts_line(last.map_run)}' if last.map_run else ''}")
    if last.run.error:
        say(f"{last.run.error}{f': {last.run.cause}' if last.run.cause else ''}")
    if last.map_run and last.map_run.succeeded < last.map_run.total:
        say(f"`longhaul reimport failures {last.run.name}` says what failed.")
    if last.run.status != "SUCCEEDED":
        sys.exit(1)


def look(runs: Runs, run: Run, interval: float) -> Iterator[Sight]:
    """Yield the run as it is now, then every `interval` seconds, last when it is over."""
    pace = Pace()
    map_run: MapRun | None = None
    while True:
        run = runs.describe(run.arn)
        if map_run is not None and map_run.status == RUNNING:
            map_run = runs.describe_map_run(map_run.arn)
        else:
            map_run = next(reversed(runs.map_runs(run.arn)), None)
        now = datetime.now(UTC)
        if map_run is not None:
            pace.note(now, map_run.ended)
        sight = Sight(
            at=now,
            run=run,
            map_run=map_run,
            per_minute=pace.per_minute,
            remaining=pace.remaining(map_run.pending + map_run.running) if map_run else None,
        )
        yield sight
        if sight.over:
            return
        time.sleep(interval)


def line(sight: Sight) -> str:
    """Return a sight as one line."""
    m = sight.map_run
    if m is None:
        return "reading the list" if sight.run.status == RUNNING else f"{sight.run.status}, no item ran"
    parts = [counts_line(m), f"cap {m.max_concurrency}"]
    if sight.run.status == RUNNING:
        if sight.per_minute is not None:
            parts.append(f"{sight.per_minute:.1f} a minute")
        if sight.remaining is not None:
            parts.append(f"{lasting(sight.remaining.total_seconds())} left")
    elif m.status == RUNNING:
        parts.append("stopping")
    return ", ".join(parts)


def _print(sights: Iterator[Sight]) -> Sight:
    """Print a line when something changed, and now and then otherwise."""
    last: Sight | None = None
    shown: tuple[Any, datetime] | None = None
    for last in sights:
        state = (last.run.status, last.map_run and (counts_line(last.map_run), last.map_run.max_concurrency))
        if shown is None or shown[0] != state or last.at - shown[1] >= _QUIET:
            say(f"{last.at.astimezone():%H:%M:%S} {line(last)}")
            shown = (state, last.at)
    assert last is not None  # noqa: S101 - there is always a first look
    return last


def _draw(console: Console, sights: Iterator[Sight]) -> Sight:
    """Keep a bar up to date."""
    last: Sight | None = None
    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=2) as progress:
        task = progress.add_task("", total=None, name="")
        for last in sights:
            m = last.map_run
            progress.update(
                task,
                name=last.run.name,
                description=line(last),
                total=m.total if m and m.total else None,
                completed=m.ended if m else 0,
            )
    assert last is not None  # noqa: S101 - there is always a first look
    return last
