"""`longhaul fleet`: publish a queue of benchmark jobs, work it off, look at it and steer it (F25)."""

from __future__ import annotations

import click

from longhaul.cli import LazyGroup


@click.group(
    cls=LazyGroup,
    members={
        "pause": ("longhaul.cli.fleet_steer:pause", "Let workers take nothing more; what runs goes on."),
        "publish": ("longhaul.cli.fleet_publish:publish", "Publish a queue."),
        "rehearse": ("longhaul.cli.fleet_steer:rehearse", "Let a host believe that it is interrupted."),
        "requeue": ("longhaul.cli.fleet_steer:requeue", "Run jobs again that are done."),
        "resume": ("longhaul.cli.fleet_steer:resume", "Let workers take jobs again."),
        "status": ("longhaul.cli.fleet_status:status", "Show jobs, slots and hosts of a queue."),
        "worker": ("longhaul.cli.fleet_worker:worker", "Work a queue off, on this host."),
    },
    epilog="""\b
Exit codes:
  0  done
  1  the verb failed
  2  a wrong argument; nothing was done
  3  the environment: no credentials, wrong region
""",
)
def fleet() -> None:
    """Measure with a fleet of hosts that come and go.

    A queue is known by its name, and by the location of its stack's results: --results or $LONGHAUL_FLEET_RESULTS. Data
    goes to stdout, talk to stderr.
    """
