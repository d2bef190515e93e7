"""`longhaul reimport`: the verbs of a re-import, from starting it to retrying what is left."""

from __future__ import annotations

import click

from longhaul.cli import EXIT_CODES
from longhaul.cli.reimport_results import failures, logs, report
from longhaul.cli.reimport_start import retry, start
from longhaul.cli.reimport_steer import list_runs, redrive, status, stop, throttle
from longhaul.cli.reimport_watch import watch


@click.group(epilog=EXIT_CODES)
def reimport() -> None:
    """Force a list of logs through the importer again: start, watch, stop, redrive, read what failed.

    RUN is a run's name, its ARN, or the beginning of its name if no other begins so. Data goes to stdout, talk to
    stderr; every verb that reads takes --json.
    """


for verb in (start, list_runs, status, watch, throttle, stop, redrive, failures, retry, report, logs):
    reimport.add_command(verb)
