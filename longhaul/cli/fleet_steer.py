"""`requeue`, `pause`, `resume` and `rehearse`: steer a queue that is published (F25)."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from longhaul.cli.fleet_options import (
    dry_run_option,
    published,
    queue_argument,
    results_option,
    session,
    stack_of,
    yes_option,
)
from longhaul.cli.output import put, say
from longhaul.cli.reimport_options import confirm
from longhaul.fleet import lease as rules
from longhaul.fleet import operations
from longhaul.fleet.directory import Directory
from longhaul.fleet.errors import FleetError
from longhaul.fleet.hosts import StoredHost, stored
from longhaul.fleet.instance import Alone
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import State
from longhaul.fleet.location import Location
from longhaul.fleet.machine import Lifecycle
from longhaul.fleet.queue import RefusedError
from longhaul.fleet.runtime import real
from longhaul.fleet.stack import Stack
from longhaul.fleet.surroundings import Doing

POLL_SECONDS = 2.0


@click.command(short_help="Run jobs again that are done.")
@queue_argument
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--resume", "keep", is_flag=True, help="Keep what was measured, and run only what lacks a success.")
@results_option
@dry_run_option
def requeue(keys: QueueKeys, jobs: Sequence[str], keep: bool, results: Location | None, dry_run: bool) -> None:
    """Run jobs again that are done, whatever their outcome: afresh, or what is left with --resume.

    What was measured so far stays where it is. Jobs that are not done are left alone, and named.
    """
    stack = stack_of(results)
    known = {job.id for job in published(stack, keys).documents.jobs}
    unknown = [job for job in jobs if job not in known]
    if unknown:
        raise click.UsageError(f"queue {keys.queue} has no job {', '.join(unknown)}; nothing was requeued")
    refused = 0
    for job in jobs:
        try:
            if dry_run:
                now = rules.seen(stack.store.get(keys.claim(job)))
                done = now is not None and now.lease is not None and now.lease.state is State.DONE
                put(f"{job}: {'would be requeued' if done else 'is not done, and would be left alone'}")
                continue
            body = operations.requeue(stack.store, keys, job, real(), resume=keep)
        except RefusedError as error:
            say(f"Error: {error}")
            refused += 1
            continue
        put(f"{job}: requeued, generation {body.generation}{', with what was measured' if keep else ''}")
    if refused:
        sys.exit(1)


@click.command(short_help="Let workers take nothing more.")
@queue_argument
@click.option("--reason", default="", help="Kept with the pause.")
@results_option
@dry_run_option
def pause(keys: QueueKeys, reason: str, results: Location | None, dry_run: bool) -> None:
    """Let workers take nothing more; what runs goes on, and hosts are kept."""
    stack = stack_of(results)
    published(stack, keys)
    if dry_run:
        put(f"{keys.queue}: would be paused")
    elif operations.pause(stack.store, keys, real(), reason=reason):
        put(f"{keys.queue}: paused")
        say(f"What runs goes on. `longhaul fleet resume {keys.queue}` ends the pause.")
    else:
        put(f"{keys.queue}: was paused already")


@click.command(short_help="Let workers take jobs again.")
@queue_argument
@results_option
@dry_run_option
def resume(keys: QueueKeys, results: Location | None, dry_run: bool) -> None:
    """Let workers take jobs again."""
    stack = stack_of(results)
    published(stack, keys)
    if dry_run:
        put(f"{keys.queue}: would be resumed")
    else:
        put(f"{keys.queue}: {'resumed' if operations.resume(stack, keys) else 'was not paused'}")


@click.command(short_help="Let a host believe that it is interrupted.")
@queue_argument
@click.argument("host")
@click.option(
    "--wait", type=click.IntRange(min=0), default=180, show_default=True, help="Seconds to wait for the hand-over."
)
@results_option
@dry_run_option
@yes_option
def rehearse(keys: QueueKeys, host: str, wait: int, results: Location | None, dry_run: bool, yes: bool) -> None:
    """Leave an interruption notice on HOST, as `status` names it, and wait until its worker has handed over.

    An instance gets it through Systems Manager and is terminated afterwards without decrement, so that the group
    replaces it. A worker on this machine finds it in its directory.
    """
    stack = stack_of(results)
    published(stack, keys)
    found = stored(stack.store.get(keys.host(host)))
    if found is None:
        raise FleetError(f"no host {host} has worked on {keys.queue}; `longhaul fleet status {keys.queue}` names them")
    if found.doing is Doing.ENDED:
        raise FleetError(f"the worker of {host} has ended already: {found.why or 'it does not say why'}")
    local = found.lifecycle == Lifecycle.NONE
    if local and Alone(Path(found.directory)).identity.instance != host:
        raise FleetError(f"{host} is no instance, and not this machine: leave a file in its {found.directory} there")
    where = f"{Directory(Path(found.directory)).rehearsal} {'here' if local else f'on {host}, then terminate it'}"
    if dry_run:
        put(f"{host}: would write {where}")
        return
    confirm(f"Interrupt the worker of {host}?", yes)
    text = f"rehearsal from {socket.gethostname()}"
    if local:
        Directory(Path(found.directory)).rehearsal.write_text(text)
    else:
        operations.send_rehearsal(session().client("ssm"), found, text)
    say(f"The notice is left; waiting up to {wait} s for the hand-over.")
    if not _ended(stack, keys, found, wait):
        raise FleetError(f"after {wait} s the worker of {host} has not said that it ended; nothing was terminated")
    if not local:
        operations.replace_instance(session().client("autoscaling"), host)
    put(f"{host}: handed over{'' if local else ', and terminated without decrement'}")


def _ended(stack: Stack, keys: QueueKeys, host: StoredHost, wait: float) -> bool:
    until = time.monotonic() + wait
    while True:
        now = stored(stack.store.get(keys.host(host.instance)))
        if now is not None and (now.doing is Doing.ENDED or now.worker != host.worker):
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_SECONDS)
