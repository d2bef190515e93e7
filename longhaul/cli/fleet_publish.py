"""`publish`: from a configuration to a queue that workers may take (F25)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from longhaul.benchmark import running
from longhaul.benchmark.environment import versions
from longhaul.benchmark.jobs import plan
from longhaul.cli.fleet_options import dry_run_option, queue_argument, results_option, stack_of
from longhaul.cli.output import counted, put, put_table, say
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.queue import Documents, check_alone, check_free
from longhaul.fleet.queue import publish as publish_queue
from longhaul.fleet.runtime import real


@click.command(short_help="Publish a queue.")
@queue_argument
@click.option(
    "--config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="File that names the cases; docs/benchmark.md says how.",
)
@click.option(
    "--api-slots", type=click.IntRange(min=1), required=True, help="API weight that may be in use at once, of all jobs."
)
@results_option
@dry_run_option
def publish(keys: QueueKeys, config: Path, api_slots: int, results: Location | None, dry_run: bool) -> None:
    """Publish a queue under a name that was never used.

    A stack has one unfinished queue; workers take jobs as soon as it is published. Prints the location of the queue.
    """
    stack = stack_of(results)
    planned = plan(config.read_bytes(), demand=running.demand, versions=versions(), name=str(config))
    documents, units = Documents.of(planned.files), planned.config.units()
    documents.check_slots(api_slots)
    trials = sum(job.repetitions * sum(job.cases.picks(unit) for unit in units) for job in planned.jobs)
    heaviest = max(job.api_weight for job in documents.jobs)
    say(
        f"{counted(len(documents.jobs), 'job')} of run {documents.manifest.run}, {counted(trials, 'repetition')};"
        f" the heaviest needs {heaviest} of {counted(api_slots, 'API slot')}."
    )
    where = f"{stack.location}fleet/{keys.queue}/"
    if dry_run:
        check_free(stack, keys)
        check_alone(stack, keys)
        put_table(
            ("JOB", "CASES", "SCALES", "REPETITIONS", "WARM-UPS", "API WEIGHT", "WEIGHT"),
            (
                (
                    job.id,
                    ", ".join(job.cases.ids),
                    ", ".join(job.cases.scales),
                    job.repetitions,
                    job.warmups,
                    job.api_weight,
                    f"{job.weight:g}",
                )
                for job in planned.jobs
            ),
            right=("REPETITIONS", "WARM-UPS", "API WEIGHT", "WEIGHT"),
        )
        say(f"Nothing was published at {where}.")
        return
    publish_queue(stack, keys, documents, real(), api_slots=api_slots, worker_version=metadata.version("longhaul"))
    put(where)
    say(f"Published. Follow it with `longhaul fleet status {keys.queue} --watch`.")
