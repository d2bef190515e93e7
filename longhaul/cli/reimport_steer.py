"""`list`, `status`, `throttle`, `stop` and `redrive`: look at runs and steer them (R21)."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import Any

import click

from longhaul.cli.environment import Environment, environment_options
from longhaul.cli.output import counted, lasting, put, put_json, put_table, say, warn, when
from longhaul.cli.reimport_options import Cap, confirm, json_option, run_argument, runs_of, yes_option
from longhaul.reimport.errors import RefusedError
from longhaul.reimport.jobs import Job, alive_of
from longhaul.reimport.runs import (
    RUNNING,
    MapRun,
    Run,
    Runs,
    StillEndingError,
    check_redrivable,
    require_map_runs,
)

POLL_SECONDS = 2.0
_SHOWN_JOBS = 20


@click.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Runs shown, newest first.")
@click.option("--running", is_flag=True, help="Only runs that are running.")
@json_option
@environment_options
def list_runs(environment: Environment, limit: int, running: bool, as_json: bool) -> None:
    """List the runs, the newest first."""
    found = runs_of(environment).recent(RUNNING if running else None)
    shown = list(itertools.islice(found, limit))
    if as_json:
        put_json([run_json(environment, run) for run in shown])
        return
    if not shown:
        say("There is no run yet." if not running else "No run is running.")
        return
    now = datetime.now(UTC)
    put_table(
        ("NAME", "STATUS", "STARTED", "DURATION", "REDRIVES"),
        ((r.name, r.status, when(r.started), lasting(r.lasted(now)), r.redrive_count) for r in shown),
        right=("REDRIVES",),
    )
    if next(found, None) is not None:
        say(f"The newest {limit}; --limit shows more.")


@click.command(short_help="Show a run: counts, cap, how it ended.")
@run_argument
@json_option
@environment_options
def status(environment: Environment, run_name: str, as_json: bool) -> None:
    """Show a run: its input, its counts, its cap, and how it ended."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    map_runs = runs.map_runs(run.arn)
    if as_json:
        put_json({**run_json(environment, run), "map_runs": [map_run_json(m) for m in map_runs]})
        return
    put(f"{run.name}: {run.status}")
    put(f"  started    {when(run.started)}")
    if run.stopped:
        put(f"  ended      {when(run.stopped)}")
    if run.redrive_count:
        put(f"  redriven   {counted(run.redrive_count, 'time')}, last {when(run.redriven)}")
    if run.error or run.cause:
        put(f"  error      {': '.join(part for part in (run.error, run.cause) if part)}")
    put(f"  list       {run.list_key or 'none'}")
    for m in map_runs:
        put(f"  map run    {m.id}: {m.status}")
        put(f"  cap        {m.max_concurrency} (the input says {run.max_concurrency})")
        put(f"  tolerance  {m.tolerated_failure_percentage:g} %")
        put(f"  items      {counts_line(m)}")
        if m.not_redrivable:
            put(f"             {counted(m.not_redrivable, 'failure')} too old to be redriven; `retry` takes them")
    put(f"  arn        {run.arn}")
    if console := environment.console_url(run.arn):
        put(f"  console    {console}")
    if run.status != RUNNING and any(m.succeeded < m.total for m in map_runs):
        say(f"`longhaul reimport failures {run.name}` says what failed.")


@click.command(short_help="Set the cap of a running run.")
@run_argument
@click.option("--max-concurrency", type=Cap(), required=True, help="The new cap, 1 to 32.")
@environment_options
def throttle(environment: Environment, run_name: str, max_concurrency: int) -> None:
    """Set the cap of a running run; jobs in flight keep running, so the load follows as they end."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    if run.status != RUNNING:
        raise RefusedError(f"{run.name} is not running, it is {run.status}")
    going = [m for m in require_map_runs(run, runs.map_runs(run.arn)) if m.status == RUNNING]
    if not going:
        raise RefusedError(f"the Map Run of {run.name} has ended")
    for map_run in going:
        runs.throttle(map_run, max_concurrency)
        put(f"{run.name}: cap {map_run.max_concurrency} -> {max_concurrency}, {map_run.running} running")
    if run.max_concurrency != max_concurrency:
        say(f"A redrive of this run would go back to the cap of its input, {run.max_concurrency}.")


@click.command(short_help="Stop a run and terminate its jobs.")
@run_argument
@click.option("--reason", default="stopped by an operator", show_default=True, help="Kept with the run.")
@click.option("--wait", type=click.IntRange(min=0), default=60, show_default=True, help="Seconds to wait for the jobs.")
@yes_option
@environment_options
def stop(environment: Environment, run_name: str, reason: str, wait: int, yes: bool) -> None:
    """Stop a run: its jobs are terminated. Nothing is lost; redrive or retry it later."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    if run.status != RUNNING:
        raise RefusedError(f"{run.name} is not running, it is {run.status}")
    confirm(f"Stop {run.name} in {environment.name} and terminate its jobs?", yes)
    runs.stop(run, reason)
    say(f"Stopped {run.name}; waiting for its jobs to end.")
    map_runs, jobs = _wait_for_end(environment, runs, run, wait)
    for m in map_runs:
        put(f"{run.name}: {m.status}, {counts_line(m)}")
    if not map_runs:
        put(f"{run.name}: {runs.describe(run.arn).status}")
    if jobs or any(m.status == RUNNING for m in map_runs):
        warn(f"after {wait} s {counted(len(jobs), 'job')} still alive:")
        for job in jobs[:_SHOWN_JOBS]:
            say(f"  {job.id} {job.status} {job.key or ''}")
    say(f"`longhaul reimport redrive {run.name}` goes on with it, for 14 days.")


@click.command(short_help="Run again what failed or never ran.")
@run_argument
@click.option("--wait", type=click.IntRange(min=0), default=300, show_default=True, help="Seconds to wait for a stop.")
@yes_option
@environment_options
def redrive(environment: Environment, run_name: str, wait: int, yes: bool) -> None:
    """Run again what failed or never ran, with the original input, cap and definition."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    map_runs = _redrivable(runs, run, wait)
    for m in map_runs:
        if m.max_concurrency < run.max_concurrency:
            warn(
                f"the cap was lowered to {m.max_concurrency} while it ran; the redrive takes the input's"
                f" {run.max_concurrency} again (then `longhaul reimport throttle {run.name} --max-concurrency"
                f" {m.max_concurrency}`, or retry with a lower cap)"
            )
        if m.not_redrivable:
            warn(f"{counted(m.not_redrivable, 'failure')} are older than 14 days and not redriven; `retry` takes them")
    if runs.redeployed(run):
        warn(
            "a new definition was deployed since the run started; the redrive still runs the old one"
            f" (`longhaul reimport retry {run.name} --name NEW` would run the new one)"
        )
    left = sum(m.failed + m.timed_out + m.aborted + m.pending for m in map_runs)
    say(f"Redrive {run.name}: {counted(left, 'item')} left, cap {run.max_concurrency}.")
    say("Its jobs run the newest importer; the state machine stays as it was when the run started.")
    confirm(f"Redrive {run.name} in {environment.name}?", yes)
    runs.redrive(run)
    put(run.arn)
    if console := environment.console_url(run.arn):
        put(console)
    say(f"Redriven. Follow it with `longhaul reimport watch {run.name}`.")


def run_json(environment: Environment, run: Run) -> dict[str, Any]:
    """Return a run as `--json` prints it."""
    return {
        "name": run.name,
        "arn": run.arn,
        "status": run.status,
        "started": run.started,
        "stopped": run.stopped,
        "redrives": run.redrive_count,
        "input": run.input,
        "error": run.error,
        "cause": run.cause,
        "console": environment.console_url(run.arn),
    }


def map_run_json(m: MapRun) -> dict[str, Any]:
    """Return a Map Run as `--json` prints it."""
    names = ("pending", "running", "succeeded", "failed", "timed_out", "aborted", "total", "not_redrivable")
    return {
        "id": m.id,
        "arn": m.arn,
        "status": m.status,
        "started": m.started,
        "stopped": m.stopped,
        "redriven": m.redriven,
        "max_concurrency": m.max_concurrency,
        "tolerated_failure_percentage": m.tolerated_failure_percentage,
        "items": {name: getattr(m, name) for name in names},
    }


def counts_line(m: MapRun) -> str:
    """Return the counts of a Map Run on one line; what is zero is left out, bar the successes."""
    names = ("failed", "timed_out", "aborted", "running", "pending")
    others = [f"{getattr(m, name):,} {name.replace('_', ' ')}" for name in names if getattr(m, name)]
    return ", ".join([f"{m.succeeded:,} of {m.total:,} succeeded", *others])


def _wait_for_end(environment: Environment, runs: Runs, run: Run, wait: int) -> tuple[list[MapRun], list[Job]]:
    batch, queue = environment.client("batch"), environment.output("ImporterOnDemandQueueArn")
    deadline = time.monotonic() + wait
    while True:
        map_runs = runs.map_runs(run.arn)
        jobs = alive_of(batch, queue, run.arn)
        if not jobs and not any(m.status == RUNNING for m in map_runs):
            return map_runs, jobs
        if time.monotonic() + POLL_SECONDS > deadline:
            return map_runs, jobs
        time.sleep(POLL_SECONDS)


def _redrivable(runs: Runs, run: Run, wait: int) -> list[MapRun]:
    """Return the Map Runs of a run that can be redriven, waiting for one that is still being stopped (case-R20)."""
    deadline = time.monotonic() + wait
    told = False
    while True:
        map_runs = runs.map_runs(run.arn)
        try:
            check_redrivable(run, map_runs, datetime.now(UTC))
        except StillEndingError as error:
            if time.monotonic() + POLL_SECONDS > deadline:
                raise
            if not told:
                say(f"{error}; waiting up to {wait} s.")
                told = True
            time.sleep(POLL_SECONDS)
        else:
            return map_runs
