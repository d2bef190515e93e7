"""`failures`, `report` and `logs`: what came of the items of a run (R18, R21)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import click

from longhaul.cli.environment import Environment, environment_options
from longhaul.cli.output import counted, put, put_json, put_raw, put_table, say, warn
from longhaul.cli.reimport_options import json_option, run_argument, runs_of
from longhaul.reimport.children import read_children
from longhaul.reimport.errors import RefusedError, ReimportError
from longhaul.reimport.extraction import Extractor
from longhaul.reimport.failures import FailureClass
from longhaul.reimport.jobs import describe, named, read_log
from longhaul.reimport.report import as_failure
from longhaul.reimport.results import Outcome, Results, results
from longhaul.reimport.runs import RUNNING, Run, Runs, require_map_runs

_RUNS_SEARCHED = 10
_NEXT_STEPS = {
    FailureClass.DAMAGED_LOG: "`longhaul reimport logs KEY` says what is wrong; repair or replace it, then {again}",
    FailureClass.LOG_NOT_FOUND: "put the log back, then {again}",
    FailureClass.REFUSED: "`longhaul reimport logs KEY` says why; the same input fails again",
    FailureClass.WAREHOUSE_UNAVAILABLE: "when the warehouse is well, {again}, perhaps with a lower cap",
    FailureClass.LOG_CHANGED: "when the log is complete, {again}",
    FailureClass.OUT_OF_MEMORY: "`longhaul reimport retry ... --full-tier` gives every job the full size",
    FailureClass.INVALID_ITEM: "the list is wrong there; nothing imports such an item",
}


@click.command(short_help="Show which items failed and why.")
@run_argument
@click.option("--class", "only", type=click.Choice([c.value for c in FailureClass]), help="Only this class.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows of the table.")
@click.option("--tsv", is_flag=True, help="Print key, Error and the first 200 characters of Cause, tabs between.")
@json_option
@environment_options
def failures(environment: Environment, run_name: str, only: str | None, limit: int, tsv: bool, as_json: bool) -> None:
    """Show which items failed and why, each child execution once, successes of a redrive taken into account."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    with _results_of(environment, runs, run) as found:
        chosen = (i for i in found.failed() if only is None or (i.failure_class and i.failure_class.value == only))
        if tsv:
            for item in chosen:
                if item.outcome is not Outcome.MALFORMED:
                    put_raw(f"{item.key or ''}\t{item.error or ''}\t{item.cause_head or ''}")
        elif as_json:
            put_json({"run": run.name, "problems": found.problems, "failures": [as_failure(i) for i in chosen]})
        else:
            rows = (
                (i.key, (i.failure_class or i.outcome).value, i.exit_code, i.attempts, i.reason)
                for i in itertools.islice(chosen, limit)
            )
            first = next(rows, None)
            if first is None and only is not None:
                say(f"None of {run.name} is of class {only}.")
            elif first is None:
                say(f"No failures of {run.name}.")
                if run.error:
                    said = ": ".join(part for part in (run.error, run.cause) if part)
                    say(f"What failed is the run itself ({run.status}): {said}")
            else:
                headings = ("KEY", "CLASS", "EXIT", "ATTEMPTS", "REASON")
                put_table(headings, itertools.chain([first], rows), right=("EXIT", "ATTEMPTS"))
                if rest := sum(1 for _ in chosen):
                    say(f"{counted(rest, 'more failure')}; --limit, --json or --tsv shows them.")
        again = "redrive or retry" if run.redrivable else "retry"
        if not tsv and not as_json:
            for name, number in found.classes():
                step = _NEXT_STEPS.get(FailureClass(name), "{again}")
                say(f"{number:,} {name}: {step.format(again=again)}")
        for problem in found.problems:
            warn(problem)
        if pending := found.counts()[Outcome.PENDING]:
            say(f"{counted(pending, 'item')} never ran; {again} takes {'it' if pending == 1 else 'them'} too.")


@click.command(short_help="Write and show the report of an ended run.")
@run_argument
@click.option("--wait", type=click.IntRange(min=0), default=60, show_default=True, help="Seconds to wait for results.")
@json_option
@environment_options
def report(environment: Environment, run_name: str, wait: int, as_json: bool) -> None:
    """Write the report of an ended run below its results, as happens by itself, and show it."""
    runs = runs_of(environment)
    run = runs.resolve(run_name)
    require_map_runs(run, runs.map_runs(run.arn))
    extractor = _extractor(environment, runs)
    written = extractor.extract(run.arn, wait_seconds=wait)
    if as_json:
        put_json([made.summary for made in written])
        return
    for made in written:
        for line in made.markdown.splitlines():
            put(line)
        names = "summary.json, failures.jsonl, retry-keys.txt, report.md"
        say(f"Written below s3://{extractor.bucket}/{made.prefix}: {names}.")


@click.command(short_help="Show what the importer logged about a log.")
@click.argument("key")
@click.option("--run", "run_name", metavar="RUN", help=f"The run; else the newest {_RUNS_SEARCHED} are searched.")
@json_option
@environment_options
def logs(environment: Environment, key: str, run_name: str | None, as_json: bool) -> None:
    """Show what the importer logged about KEY, every attempt."""
    runs = runs_of(environment)
    source, streams = _find_streams(environment, runs, key, run_name)
    group, client = environment.output("ImporterLogGroupName"), environment.client("logs")
    lines = [line for stream in streams for line in read_log(client, group, stream)]
    if as_json:
        put_json([{"at": line.at, "stream": line.stream, "text": line.text} for line in lines])
        return
    stream = None
    for line in lines:
        if line.stream != stream:
            stream = line.stream
            say(f"--- {source}: {group} {stream}")
        put(f"{line.at.astimezone():%H:%M:%S.%f} {line.text}")
    if not lines:
        say(f"{', '.join(streams)} in {group} holds no lines.")


def _extractor(environment: Environment, runs: Runs) -> Extractor:
    return Extractor(
        s3=environment.client("s3"),
        runs=runs,
        bucket=environment.output("EvalLogReimportBucketName"),
        tiers=environment.tiers,
    )


@contextmanager
def _results_of(environment: Environment, runs: Runs, run: Run) -> Iterator[Results]:
    """Open the results of all Map Runs of a run; say so while there are none yet."""
    map_runs = require_map_runs(run, runs.map_runs(run.arn))
    if any(m.status == RUNNING for m in map_runs):
        raise RefusedError(
            f"{run.name} is still running and its results are written when it has ended;"
            f" `longhaul reimport status {run.name}` counts its failures"
        )
    extractor = _extractor(environment, runs)
    with results() as found:
        for map_run in map_runs:
            if not extractor.load(map_run, found):
                say(f"Asking Step Functions about each child of {map_run.id} instead; this takes a while.")
                read_children(environment.client("stepfunctions"), map_run.arn, found)
        yield found


def _find_streams(environment: Environment, runs: Runs, key: str, run_name: str | None) -> tuple[str, list[str]]:
    """Return what imported the key last, in words, and its log streams.

    Looks into the results of runs that have ended and the jobs of those that have not, the newest run first, then
    into the jobs of uploads.
    """
    searched = [runs.resolve(run_name)] if run_name else list(itertools.islice(runs.recent(), _RUNS_SEARCHED))
    extractor, batch = _extractor(environment, runs), environment.client("batch")
    on_demand, spot = (environment.output(f"Importer{kind}QueueArn") for kind in ("OnDemand", "Spot"))
    for run in searched:
        with results() as found:
            map_runs = runs.map_runs(run.arn)
            running = any(m.status == RUNNING for m in map_runs)
            for map_run in map_runs if not running else ():
                extractor.load(map_run, found)
            items = found.find(key)
        if not items and not running:
            continue
        jobs = list(describe(batch, (item.job_id for item in items if item.job_id)))
        if not jobs:  # in flight, stopped, or forgotten by Batch
            jobs = [j for j in named(batch, on_demand, runs.job_name) if (j.key, j.execution_arn) == (key, run.arn)]
        streams = [stream for job in jobs for stream in job.log_streams]
        streams = streams or [item.log_stream for item in items if item.log_stream]
        if streams:
            return f"run {run.name}", list(dict.fromkeys(streams))
        if items:
            raise ReimportError(f"the item of {run.name} has no log: {items[-1].reason or items[-1].outcome.value}")
    if run_name is None:
        uploads = named(batch, spot, environment.output("ImporterJobDefinitionName"))
        if job := next((j for j in uploads if j.key == key), None):
            return "its upload", list(job.log_streams)
    where = run_name or f"the newest {counted(len(searched), 'run')}, nor a recent upload,"
    raise ReimportError(f"no item of {where} has the key {key}")
