"""`start` and `retry`: make a list, show the plan, upload the list, start the run (R20, R21)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import Progress

from longhaul.cli.environment import SANDBOX, Environment, environment_options
from longhaul.cli.output import counted, lasting, put, put_json, say, sized, warn
from longhaul.cli.reimport_options import Cap, Moment, RunName, json_option, run_argument, runs_of
from longhaul.reimport.building import as_json as summary_json
from longhaul.reimport.cost import FARGATE_LINUX_X86, Forecast, forecast
from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, ReimportError
from longhaul.reimport.keys import read_keys
from longhaul.reimport.listing import Draft, ListSummary, draft, exists, list_key, read_list
from longhaul.reimport.results import results
from longhaul.reimport.runs import (
    DEFAULT_MAX_CONCURRENCY,
    DEFAULT_TOLERATED_FAILURE_PERCENTAGE,
    RUNNING,
    Run,
    Runs,
    StillEndingError,
    aborting_failures,
    execution_input,
)
from longhaul.reimport.selectors import Selector, Tally, select

_SHOWN = 5
_KEYS_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that a start will do."""

    name: str
    list_key: str
    input: dict[str, Any]
    summary: ListSummary
    invalid_items: int  # of an uploaded list: they fail alone
    forecast: Forecast
    upload: bool


@click.command(short_help="Start a run of a list of logs.")
@click.option("--name", type=RunName(), help="Name of the list and the run: 1 to 80 of A-Z a-z 0-9 _ -.")
@click.option("--keys-file", type=_KEYS_FILE, metavar="FILE", help="One key or s3:// URI a line; - is stdin.")
@click.option("--prefix", help="Instead of a keys file: all .eval logs below this prefix; .json only by a keys file.")
@click.option(
    "--eval-set", "eval_sets", multiple=True, metavar="ID", help="All .eval logs of this eval set (repeatable)."
)
@click.option("--modified-since", type=Moment(), help="Only logs modified then or later.")
@click.option("--modified-until", type=Moment(), help="Only logs modified before then.")
@click.option("--min-bytes", type=click.IntRange(min=0), help="Only logs of at least this size.")
@click.option("--max-bytes", type=click.IntRange(min=0), help="Only logs of at most this size.")
@click.option("--list-key", "uploaded", metavar="KEY", help="Start a list that is uploaded already: lists/NAME.json.")
@click.option(
    "--max-concurrency", type=Cap(), default=DEFAULT_MAX_CONCURRENCY, show_default=True, help="Jobs at once, 1 to 32."
)
@click.option(
    "--tolerated-failure-percentage",
    type=click.FloatRange(0, 100),
    default=DEFAULT_TOLERATED_FAILURE_PERCENTAGE,
    show_default=True,
    help="More failures than this end the run.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; upload and start nothing.")
@json_option
@environment_options
def start(
    environment: Environment,
    name: str | None,
    keys_file: str | None,
    uploaded: str | None,
    max_concurrency: int,
    tolerated_failure_percentage: float,
    dry_run: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Start a run of the logs of a keys file, a selection or an uploaded list.

    Checks every argument, then reads the logs' sizes, then uploads the list, then starts the run. A missing log
    stays in the list and fails in the run; any other trouble with a size stops before the upload.
    """
    selector = _selector(conditions)
    if sum(source is not None for source in (keys_file, selector, uploaded)) != 1:
        raise click.UsageError("give --keys-file, a selection (--prefix, --eval-set, ...) or --list-key: one of them")
    if uploaded is not None:
        name = name or uploaded.removeprefix("lists/").removesuffix(".json")
        RunName().convert(name, None, None)
    if name is None:
        raise click.UsageError("Missing option '--name'.")
    key = uploaded or list_key(name)
    given = execution_input(key, max_concurrency, tolerated_failure_percentage)
    runs, s3 = runs_of(environment), environment.client("s3")
    bucket, logs_bucket = environment.output("EvalLogReimportBucketName"), environment.output("LogsBucketName")
    runs.check_free(name)
    _check_list(s3, bucket, key, wanted=uploaded is not None)
    with draft(environment.tiers.small_max_bytes) as items:
        invalid = 0
        if uploaded is not None:
            invalid = _add_valid(items, read_list(s3, bucket, key))
        elif keys_file is not None:
            source = "stdin" if keys_file == "-" else keys_file
            with click.open_file(keys_file, "rb") as lines:
                items.add((found, None) for found in read_keys(lines, logs_bucket, source))
        else:
            assert selector is not None  # noqa: S101 - the check of the sources above
            tally = Tally()
            items.add(select(s3, logs_bucket, selector, tally))
            _tell(selector, tally)
        if uploaded is None:
            _read_sizes(items, s3, logs_bucket)
        _launch(
            environment,
            runs,
            items,
            name=name,
            given=given,
            invalid=invalid,
            upload=not uploaded,
            dry_run=dry_run,
            as_json=as_json,
        )


@click.command(short_help="Start a new run of what a run has not imported.")
@run_argument
@click.option("--name", type=RunName(), required=True, help="Name of the new list and run.")
@click.option("--full-tier", is_flag=True, help="Leave the sizes out, so that every job gets the full size.")
@click.option("--max-concurrency", type=Cap(), help="Jobs at once, 1 to 32.  [default: that of RUN]")
@click.option("--tolerated-failure-percentage", type=click.FloatRange(0, 100), help="[default: that of RUN]")
@click.option("--dry-run", is_flag=True, help="Show the plan; upload and start nothing.")
@json_option
@environment_options
def retry(
    environment: Environment,
    run_name: str,
    name: str,
    full_tier: bool,
    max_concurrency: int | None,
    tolerated_failure_percentage: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start a new run of what RUN has not imported: its list without the logs that succeeded.

    Works for runs that AWS will not redrive (SUCCEEDED within tolerance, ended over 14 days ago), for runs without
    results, and after an out-of-memory failure with --full-tier. It runs the newest deployed definition.
    """
    runs, s3 = runs_of(environment), environment.client("s3")
    bucket, logs_bucket = environment.output("EvalLogReimportBucketName"), environment.output("LogsBucketName")
    run = runs.resolve(run_name)
    map_runs = runs.map_runs(run.arn)
    if run.status == RUNNING:
        raise ReimportError(f"{run.name} is still running; stop it first: `longhaul reimport stop {run.name}`")
    if any(m.status == RUNNING for m in map_runs):
        raise StillEndingError(f"{run.name} is still stopping its jobs; try again in a moment")
    if run.list_key is None or not exists(s3, bucket, run.list_key):
        raise ReimportError(f"the list of {run.name} is gone ({run.list_key}); start a run from a keys file instead")
    given = execution_input(
        list_key(name),
        max_concurrency or run.max_concurrency,
        _tolerated(run) if tolerated_failure_percentage is None else tolerated_failure_percentage,
    )
    runs.check_free(name)
    _check_list(s3, bucket, list_key(name), wanted=False)
    with draft(None if full_tier else environment.tiers.small_max_bytes) as items, results() as found:
        for map_run in map_runs:
            found.read_successes(s3, bucket, map_run.id)
        for problem in found.problems:
            warn(f"{problem}; its items are imported again")
        done = 0

        def left() -> Iterator[Any]:
            nonlocal done
            for item in read_list(s3, bucket, run.list_key or ""):
                if isinstance(item, dict) and isinstance(item.get("key"), str) and found.imported(item["key"]):
                    done += 1
                else:
                    yield {"key": item["key"]} if isinstance(item, dict) and "key" in item else item

        invalid = _add_valid(items, left())
        if done:
            say(f"{counted(done, 'item')} of {run.name} succeeded and {'is' if done == 1 else 'are'} left out.")
        if invalid:
            warn(f"{counted(invalid, 'item')} without a usable key left out")
        if not items.summary().items:
            say(f"Nothing is left to retry of {run.name}.")
            if as_json:
                put_json({"items": 0, "started": False})
            return
        _read_sizes(items, s3, logs_bucket)
        _launch(
            environment, runs, items, name=name, given=given, invalid=0, upload=True, dry_run=dry_run, as_json=as_json
        )


def _launch(
    environment: Environment,
    runs: Runs,
    items: Draft,
    *,
    name: str,
    given: dict[str, Any],
    invalid: int,
    upload: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    summary = items.summary()
    if not summary.items + invalid:
        raise InvalidArgumentError("there is no log to import: the list is empty")
    plan = Plan(
        name=name,
        list_key=given["list_key"],
        input=given,
        summary=summary,
        invalid_items=invalid,
        forecast=forecast(items.sizes(), environment.tiers, given["max_concurrency"]),
        upload=upload,
    )
    if dry_run:
        if as_json:
            put_json({**_plan_json(plan, environment), "started": False})
        else:
            for line in _plan_lines(plan, environment):
                put(line)
        say("Dry run: nothing was uploaded, nothing was started.")
        return
    for line in _plan_lines(plan, environment):
        say(line)
    if upload:
        items.upload(environment.client("s3"), environment.output("EvalLogReimportBucketName"), name)
        say(f"Uploaded {plan.list_key}.")
    try:
        arn = runs.start(name, given)
    except (ClientError, BotoCoreError, ReimportError) as error:
        error.add_note(f"the list is uploaded: start it with `longhaul reimport start --list-key {plan.list_key}`")
        raise
    console = environment.console_url(arn)
    if as_json:
        put_json({**_plan_json(plan, environment), "started": True, "execution_arn": arn, "console": console})
    else:
        put(arn)
        if console:
            put(console)
    say(f"Started. Follow it with `longhaul reimport watch {name}`.")


def _plan_lines(plan: Plan, environment: Environment) -> Iterator[str]:
    summary, cap = plan.summary, plan.input["max_concurrency"]
    tolerated = plan.input["tolerated_failure_percentage"]
    total = summary.items + plan.invalid_items
    yield f"Run {plan.name} in {environment.name}: {counted(total, 'log')}, {sized(summary.total_bytes)}"
    yield f"  list        {plan.list_key}{'' if plan.upload else ' (uploaded already)'}"
    yield f"  jobs        {summary.small_items:,} small, {summary.full_items:,} full; at most {cap} at once"
    yield f"  estimate    about {lasting(plan.forecast.seconds)} and ${plan.forecast.dollars:.2f}, very rough"
    yield f"              ({FARGATE_LINUX_X86.source})"
    fatal = aborting_failures(total, tolerated)
    if fatal is None:
        yield f"  tolerance   {tolerated:g} %: no number of failures aborts the run"
    elif fatal == 1:
        yield f"  tolerance   {tolerated:g} %: the first failure aborts the run"
    else:
        yield f"  tolerance   {tolerated:g} %: {counted(fatal, 'failure')} abort the run"
    if fatal is not None and summary.missing + plan.invalid_items >= fatal:
        yield "              which the missing logs reach by themselves: tolerate more, or leave them out"
    if summary.missing:
        yield f"  missing     {counted(summary.missing, 'log')} not in the bucket; they stay in the list and fail:"
        yield from _examples(summary.missing_keys, summary.missing)
    if plan.invalid_items:
        yield f"  invalid     {counted(plan.invalid_items, 'item')} without a usable key; they fail alone"
    if summary.duplicates:
        yield f"  duplicates  {counted(summary.duplicates, 'line')} dropped, each log is imported once:"
        yield from _examples(summary.duplicate_keys, summary.duplicates)
    if environment.name == SANDBOX:  # no one is on call there, and its warehouse has no DBLoad
        return
    yield "  Failed items land in the importer's dead-letter queue and trip its alarm: tell whoever is on call."
    yield "  Watch the warehouse's DBLoad at first; `longhaul reimport throttle` lowers the cap of the running run."


def _examples(keys: tuple[str, ...], total: int) -> Iterator[str]:
    for key in keys[:_SHOWN]:
        yield f"                {key}"
    if total > _SHOWN:
        yield f"                and {total - min(_SHOWN, len(keys)):,} more"


def _plan_json(plan: Plan, environment: Environment) -> dict[str, Any]:
    total = plan.summary.items + plan.invalid_items
    return {
        "name": plan.name,
        "environment": environment.name,
        "input": plan.input,
        **summary_json(plan.summary),
        "invalid_items": plan.invalid_items,
        "aborting_failures": aborting_failures(total, plan.input["tolerated_failure_percentage"]),
        "estimate": asdict(plan.forecast),
    }


def _selector(conditions: dict[str, Any]) -> Selector | None:
    chosen = {name: value for name, value in conditions.items() if value not in (None, ())}
    if not chosen:
        return None
    if ids := chosen.pop("eval_sets", None):
        chosen["eval_set_ids"] = tuple(ids)
    return Selector(**chosen)


def _tell(selector: Selector, tally: Tally) -> None:
    """Say what a selection has passed by, before the plan."""
    for missed in sorted(set(selector.eval_set_ids) - tally.eval_set_ids):
        warn(f"no log of the eval set {missed} is selected; check its name")
    if tally.other_files:
        left_out = f"{counted(tally.other_files, '.json file')} left out"
        say(f"{left_out}: a selection takes .eval logs only; name .json logs in a keys file.")


def _check_list(s3: Any, bucket: str, key: str, *, wanted: bool) -> None:
    there = exists(s3, bucket, key)
    if wanted and not there:
        raise InvalidArgumentError(f"there is no list {key} in {bucket}")
    if there and not wanted:
        raise NameTakenError(
            f"the list {key} exists already and is never overwritten; take another --name, or start that very list"
            f" with `longhaul reimport start --list-key {key}`"
        )


def _add_valid(items: Draft, given: Iterator[Any]) -> int:
    """Add the items that have a key and return how many have none."""
    invalid = 0

    def valid() -> Iterator[tuple[str, int | None]]:
        nonlocal invalid
        for item in given:
            key = item.get("key") if isinstance(item, dict) else None
            if not isinstance(key, str) or not key:
                invalid += 1
                continue
            size = item.get("size")
            yield key, size if isinstance(size, int) and not isinstance(size, bool) else None

    items.add(valid())
    return invalid


def _tolerated(run: Run) -> float:
    given = (run.input or {}).get("tolerated_failure_percentage", DEFAULT_TOLERATED_FAILURE_PERCENTAGE)
    return given if isinstance(given, int | float) else DEFAULT_TOLERATED_FAILURE_PERCENTAGE


def _read_sizes(items: Draft, s3: Any, logs_bucket: str) -> None:
    with _bar("reading sizes", items.summary().items) as advance:
        items.read_sizes(s3, logs_bucket, advance)


@contextmanager
def _bar(text: str, total: int) -> Iterator[Any]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.advance(task, done)
