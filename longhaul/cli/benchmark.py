"""`longhaul benchmark`: measure cases on this machine or for a fleet, see that queries stopped, report."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from longhaul.cli.output import lasting, put_raw, say, warn
from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import Attempt
from longhaul.fleet.location import Location

if TYPE_CHECKING:
    from longhaul.benchmark.checkpoint import Record

RUN_EPILOG = """\b
Exit codes:
    0  every repetition has succeeded, or its case cannot be measured
    1  some failed
    2  a wrong argument or configuration; nothing was measured
   75  stopped: the deadline is over, or records could not be stored or written
  130  interrupted; running it again goes on where it stopped
"""
QUIESCE_EPILOG = """\b
Exit codes:
   0  confirmed: no query of these attempts runs any more
   2  a wrong argument or configuration
  75  not confirmed; what may still run is in the word file
"""
REPORT_EPILOG = """\b
Exit codes:
   0  there is a report, whatever it says
   1  none can be made of these records
   2  a wrong argument or configuration
  75  stopped: records could not be read, or the report not be written
"""
_ATTEMPT = re.compile(r"g(\d+)/attempt-(\d+)")
_GENERATIONS = re.compile(r"(\d+)\.\.(\d+)")
FAILED, STOPPED, INTERRUPTED = 1, 75, 130


class AttemptType(click.ParamType[Attempt]):
    """`g<generation>/attempt-<n>`."""

    name = "gG/attempt-N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Attempt:
        """Refuse anything else."""
        found = _ATTEMPT.fullmatch(str(value))
        if not found:
            self.fail(f"{value!r} is not like g0/attempt-1", param, ctx)
        return Attempt(generation=int(found[1]), number=int(found[2]))


class GenerationsType(click.ParamType[range]):
    """`A..B`, both included."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Refuse anything else."""
        found = _GENERATIONS.fullmatch(str(value))
        if not found or int(found[1]) > int(found[2]):
            self.fail(f"{value!r} is not like 0..1", param, ctx)
        return range(int(found[1]), int(found[2]) + 1)


class LocationType(click.ParamType[Location]):
    """`s3://bucket/prefix/`."""

    name = "s3://…/"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        """Refuse anything else."""
        try:
            return Location.parse(str(value))
        except FleetError as error:
            self.fail(str(error), param, ctx)


FOLDER = click.Path(file_okay=False, path_type=Path)
THERE = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def benchmark() -> None:
    """Measure cases, each repetition in a process of its own, and report what was measured.

    On a laptop: `longhaul benchmark run cases.toml`, again after an interruption, then `report`. The workers of a fleet
    run the same verbs, with the options that say so.
    """


@benchmark.command(epilog=RUN_EPILOG)
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--job", "jobs", multiple=True, help="Job to run; with a CONFIG all of them if not given.")
@click.option("--output", type=FOLDER, help="Folder for what is measured.  [default: results]")
@click.option("--queue-directory", type=THERE, help="Fleet: folder with the queue's documents, instead of a CONFIG.")
@click.option("--attempt", type=AttemptType(), help="Fleet: which attempt this is; --output is then its folder.")
@click.option("--checkpoint", type=LocationType(), help="Fleet: where the records of this attempt are stored.")
@click.option("--resume", type=THERE, multiple=True, help="Fleet: folder of an earlier attempt; may be repeated.")
@click.option("--deadline", type=FILE, help="Fleet: file that says until when this may act.")
@click.option("--trials", type=LocationType(), help="Fleet: where each trial gets a prefix for its queries.")
def run(
    config: Path | None,
    jobs: Sequence[str],
    output: Path | None,
    queue_directory: Path | None,
    attempt: Attempt | None,
    checkpoint: Location | None,
    resume: Sequence[Path],
    deadline: Path | None,
    trials: Location | None,
) -> None:
    """Measure what is not measured yet.

    CONFIG names cases; docs/benchmark.md says how. Attempts lie below --output; started again, it measures only what
    lacks a success. Prints a summary of each job.
    """
    if config is not None:
        others = {
            "--queue-directory": queue_directory,
            "--attempt": attempt,
            "--checkpoint": checkpoint,
            "--resume": resume,
            "--deadline": deadline,
            "--trials": trials,
        }
        given = [name for name, value in others.items() if value]
        if given:
            raise click.UsageError(f"{', '.join(given)}: not together with a CONFIG")
        sys.exit(_until_interrupted(lambda: _run_here(config, jobs, output or Path("results"))))
    if queue_directory is None or attempt is None or output is None or len(jobs) != 1:
        raise click.UsageError("give a CONFIG; or --queue-directory, one --job, --attempt and --output")

    from longhaul.benchmark import running, s3
    from longhaul.benchmark.jobs import manifest_sha256, read_plan

    plan = read_plan(queue_directory, jobs[0])
    start = partial(
        running.run,
        plan,
        attempt=attempt,
        output=output,
        manifest_sha256=manifest_sha256(queue_directory),
        earlier=resume,
        remote=None if checkpoint is None else s3.S3Folder(s3.client(s3.RECORDS), checkpoint),
        deadline=deadline,
        trials=None if trials is None else str(trials),
        shown=_show,
    )
    sys.exit(_until_interrupted(start))


def _until_interrupted(start: Callable[[], int]) -> int:
    """SIGINT before and between attempts is no failure either; nor is what this host cannot do, as on a full disk."""
    try:
        return start()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _stopped(error)


def _stopped(error: Exception) -> int:
    """Another host may do better: it says nothing about the job. Nor need there be space for the log."""
    with contextlib.suppress(OSError):
        warn(f"stopped: {error or type(error).__name__}")
    return STOPPED


def _run_here(config: Path, jobs: Sequence[str], output: Path) -> int:
    """Run jobs of a configuration, one after the other, each as a new attempt over those that are there."""
    from longhaul.benchmark import publishing, running
    from longhaul.benchmark.checkpoint import LOG, Trials
    from longhaul.benchmark.environment import versions
    from longhaul.benchmark.jobs import plan, plan_of
    from longhaul.benchmark.report import markdown_of
    from longhaul.benchmark.rounds import left

    documents = plan(config.read_bytes(), demand=running.demand, versions=versions(), name=str(config))
    plans = [plan_of(documents.config, documents.jobs, job) for job in jobs or [job.id for job in documents.jobs]]
    worst = 0
    for one in plans:
        folder = output / one.job.id
        earlier = _attempts(folder)
        number = 1 + max((int(path.name.removeprefix("attempt-")) for path in earlier), default=0)
        code = 0
        if not left(one, Trials.of_folders(earlier).records).nothing:
            code = running.run(
                one,
                attempt=Attempt(generation=0, number=number),
                output=folder / "g0" / f"attempt-{number}",
                earlier=earlier,
                shown=_show,
            )
            if code == FAILED:
                say(f"what the commands of {one.job.id} said is in {folder}/g0/attempt-{number}/{LOG}")
        worst = max(worst, code)
        if code in (STOPPED, INTERRUPTED):
            say("stopped; the same command goes on where it stopped")
            break
        summary = publishing.of_plan(one, folder)
        publishing.write(summary, folder)
        put_raw(markdown_of(summary))
    return worst


def _attempts(folder: Path) -> list[Path]:
    return [path for path in sorted((folder / "g0").glob("attempt-*")) if path.name[8:].isdecimal()]


def _show(record: Record) -> None:
    seconds = record.times.total
    took = f" in {seconds:.3f} s" if seconds is not None else ""
    error = f": {record.error}" if record.error and record.error != record.outcome else ""
    say(f"{record.trial} {record.outcome}{took}{error}")


@benchmark.command(epilog=QUIESCE_EPILOG, short_help="Stop what attempts of a fleet may have left running.")
@click.option("--queue-directory", type=THERE, required=True, help="Folder with the queue's documents.")
@click.option("--job", required=True, help="Job that the attempts are of.")
@click.option("--seconds", type=click.FloatRange(min=0), default=300.0, help="Give up after so long.  [default: 300]")
@click.option("--word", type=FILE, required=True, help="File for what could not be confirmed.")
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
def quiesce(queue_directory: Path, job: str, seconds: float, word: Path, folders: Sequence[Path]) -> None:
    """Stop the queries that attempts, each in a folder of FOLDERS, may have left, and see that they stopped."""
    from longhaul.benchmark import running
    from longhaul.benchmark.checkpoint import LocalFolder, Trials
    from longhaul.benchmark.jobs import read_plan
    from longhaul.benchmark.quiesce import quiesce as stop
    from longhaul.fleet.runtime import real

    plan = read_plan(queue_directory, job)  # a job that is none, or documents that do not fit, confirm nothing
    if not any(running.adapter(unit.case.adapter).remote for unit in plan.units):
        return  # whatever its attempts left on this host died with them
    left = stop(Trials.of_folders(folders, enough=True), running.adapter, real(), seconds=seconds, say=say)
    if left is None:
        return
    LocalFolder(word.parent).write(word.name, msgspec.json.encode(left))
    warn(f"not confirmed within {lasting(seconds)}: {len(left.queries)} queries, {len(left.prefixes)} prefixes")
    sys.exit(STOPPED)


@benchmark.command(epilog=REPORT_EPILOG, short_help="Report on what was measured.")
@click.argument("folders", nargs=-1, type=THERE)
@click.option(
    "--format", "form", type=click.Choice(["markdown", "json", "csv"]), default="markdown", help="Of what is printed."
)
@click.option("--json", "form", flag_value="json", help="Short for --format json.")
@click.option("--generations", type=GenerationsType(), help="Whose records count; if not given, the last one's.")
@click.option("--queue-directory", type=THERE, help="Fleet: folder with the queue's documents.")
@click.option("--job", help="Fleet: job to report on.")
@click.option("--results", type=LocationType(), help="Fleet: where the job's attempts are stored.")
@click.option("--attempt", type=AttemptType(), help="Fleet: the last attempt that counts.")
@click.option("--output", type=FOLDER, help="Fleet: the attempt's folder, for the summary and merged.json.")
def report(
    folders: Sequence[Path],
    form: str,
    generations: range | None,
    queue_directory: Path | None,
    job: str | None,
    results: Location | None,
    attempt: Attempt | None,
    output: Path | None,
) -> None:
    """Report on what was measured: FOLDERS of jobs, of single attempts, or above many jobs."""
    from longhaul.benchmark import publishing, s3
    from longhaul.benchmark.errors import StoreError
    from longhaul.benchmark.jobs import read_plan
    from longhaul.benchmark.report import csv_of, markdown_of

    wrong = click.UsageError(
        "give FOLDERS; or all of --queue-directory, --job, --results, --generations, --attempt and --output"
    )
    if folders:
        if queue_directory or job or results or attempt or output:
            raise wrong
        made = [summary for folder in folders for summary in publishing.summaries(folder, generations)]
        if form == "json":
            put_raw(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
        else:
            for number, summary in enumerate(made):
                text = (markdown_of if form == "markdown" else csv_of)(summary).rstrip("\n")
                put_raw(text.partition("\n")[2] if form == "csv" and number else text)  # one table has one header
        return
    if not (queue_directory and job and results and attempt and output and generations):
        raise wrong
    plan = read_plan(queue_directory, job)
    try:
        merged = publishing.publish(
            plan,
            s3.S3Folder(s3.client(s3.READING), results),
            generations=generations,
            attempt=attempt,
            output=output,
            key_prefix=_below_stack(results),
        )
    except (OSError, StoreError) as error:
        sys.exit(_stopped(error))
    say(f"{len(merged.records)} records merged, {merged.failed} repetitions without a success")


def _below_stack(results: Location) -> str:
    """What stands between the stack's location and the attempts, in keys."""
    found = re.fullmatch(r"(?:.*/)?(fleet/[^/]+/results/[^/]+/)", results.prefix)
    if not found:
        raise click.BadParameter(
            f"{results} is not like s3://bucket/prefix/fleet/QUEUE/results/JOB/", param_hint="--results"
        )
    return found[1]
