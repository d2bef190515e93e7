"""`status`: a queue at a glance, once or until it is finished (F25)."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import click
import msgspec

from longhaul.cli.fleet_options import json_option, published, queue_argument, results_option, stack_of
from longhaul.cli.output import lasting, put, put_json, put_table, say, warn, when
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Lease
from longhaul.fleet.location import Location
from longhaul.fleet.status import JobState, JobStatus, Observer, QueueStatus

EPILOG = """\b
Exit codes:
    0  shown; with --watch: every job is done, with success
    1  it could not be shown; with --watch: the queue is finished, and some job failed
    2  a wrong argument
    3  the environment
  130  you left with Ctrl-C; the fleet goes on
"""


@click.command(epilog=EPILOG, short_help="Show jobs, slots and hosts of a queue.")
@queue_argument
@click.option("--watch", is_flag=True, help="Go on until the queue is finished, saying what changes.")
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=15.0,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@results_option
@json_option
def status(keys: QueueKeys, watch: bool, interval: float, results: Location | None, as_json: bool) -> None:
    """Show jobs, slots and hosts of a queue.

    A job is pending, running, expired (its host is silent, the next worker takes it), done, failed or cancelled. One
    that is done with errors, or without a report, counts as failed. WRITTEN says when its claim was written last: while
    it runs, every tenth of the lease.
    """
    stack = stack_of(results)
    observer = Observer(store=stack.store, keys=keys, queue=published(stack, keys))
    try:
        now = _follow(observer, interval) if watch else observer.look()
    except KeyboardInterrupt:
        say(f"\nNo longer watching; the workers of {keys.queue} go on.")
        sys.exit(130)
    if as_json:
        put_json(status_json(now))
    else:
        _show(now, stack.location)
    if watch and now.failed:
        sys.exit(1)


def _follow(observer: Observer, interval: float) -> QueueStatus:
    """Look until it is finished; only what changed is said."""
    before: dict[str, tuple[JobState, str]] | None = None
    line = ""
    while True:
        try:
            now = observer.look()
        except UnansweredError as error:
            warn(f"{error}; trying again")
        else:
            sights = {job.id: (job.state, job.attempt) for job in now.jobs}
            for job in now.jobs:
                if before is not None and before.get(job.id) != sights[job.id]:
                    say(f"{when(now.at)} {job.id}: {job.state}{_on(job)}{f', {job.detail}' if job.detail else ''}")
            before = sights
            if line != (line := counts_line(now)):
                say(f"{when(now.at)} {line}")
            if now.finished:
                return now
        time.sleep(interval)


def counts_line(now: QueueStatus) -> str:
    """Return the counts of jobs on one line."""
    counts = ", ".join(f"{count:,} {state}" for state, count in now.counts.items())
    return f"{now.queue}: {counts} of {len(now.jobs):,} jobs{', paused' if now.paused else ''}"


def _show(now: QueueStatus, location: Location) -> None:
    put(counts_line(now))
    put(f"  run        {now.run_id}, published {when(now.published)}")
    states = [slot.state for slot in now.slots]
    silent, unreadable = states.count(JobState.EXPIRED), states.count(JobState.UNKNOWN)
    put(
        f"  API slots  {states.count(JobState.RUNNING)} of {len(states)} taken"
        f"{f', {silent} left by hosts that are silent' if silent else ''}"
        f"{f', {unreadable} damaged or of another version, which nobody takes' if unreadable else ''}"
    )
    put("")
    put_table(
        ("JOB", "STATE", "ATTEMPT", "HOST", "WRITTEN", "DETAIL"),
        (
            (
                job.id,
                job.state,
                job.attempt,
                job.lease.owner.instance if job.lease else "-",
                _ago(now.at - job.written) if job.written else "-",
                job.detail,
            )
            for job in now.jobs
        ),
    )
    if now.hosts:
        put("")
        put_table(
            ("HOST", "DOING", "JOB", "KIND", "ZONE", "SEEN", "DETAIL"),
            (
                (
                    one.host.instance,
                    one.host.doing if one.alive else f"{one.host.doing}?",
                    one.host.job or "-",
                    " ".join(part for part in (one.host.lifecycle, one.host.instance_type) if part),
                    one.host.zone or "-",
                    _ago(now.at - one.seen),
                    one.host.why or "",
                )
                for one in now.hosts
            ),
        )
    if now.failed:
        say(f"`longhaul fleet requeue {now.queue} JOB` runs a failed job again. Why it failed is below")
        say(f"{location}fleet/{now.queue}/results/JOB/, in job-summary.md and log.txt of its last attempt.")


def _ago(since: timedelta) -> str:
    return f"{lasting(since.total_seconds())} ago"


def _on(job: JobStatus) -> str:
    return f", {job.attempt} on {job.lease.owner.instance}" if job.lease else ""


def status_json(now: QueueStatus) -> dict[str, Any]:
    """Return a queue as `--json` prints it."""
    return {
        "queue": now.queue,
        "run_id": now.run_id,
        "published": now.published,
        "at": now.at,
        "paused": now.paused,
        "finished": now.finished,
        "failed": now.failed,
        "jobs": {str(state): count for state, count in now.counts.items()},
        "claims": [_job_json(job) for job in now.jobs],
        "slots": [
            {"number": slot.number, "state": "free" if slot.state is JobState.PENDING else slot.state}
            | _owner_json(slot.lease if slot.state is not JobState.PENDING else None)
            for slot in now.slots
        ],
        "hosts": [{**msgspec.to_builtins(one.host), "seen": one.seen, "alive": one.alive} for one in now.hosts],
    }


def _job_json(job: JobStatus) -> dict[str, Any]:
    done = job.lease.completion if job.lease else None
    return {
        "job": job.id,
        "state": job.state,
        "api_weight": job.api_weight,
        "written": job.written,
        "generation": job.lease.generation if job.lease else None,
        "attempt": job.lease.attempt if job.lease else None,
        **_owner_json(job.lease),
        "marked_by": job.lease.marked_by if job.lease else None,
        "outcome": done.outcome if done else None,
        "exit_code": done.exit_code if done else None,
        "summary": done.summary if done else None,
        "report_error": done.report_error if done else None,
        "errors": list(done.errors) if done else [],
        "lost_slots": list(done.lost_slots) if done else [],
    }


def _owner_json(lease: Lease | None) -> dict[str, Any]:
    return {
        "host": lease.owner.instance if lease else None,
        "worker": lease.owner.worker if lease else None,
    }
