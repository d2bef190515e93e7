"""`worker`: the one process of a host that takes jobs (F9)."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import time
from importlib import metadata
from pathlib import Path
from types import FrameType

import boto3
import click

from longhaul.cli.fleet_options import RESULTS, queue_argument
from longhaul.cli.output import say
from longhaul.fleet import queue
from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.descendants import kill_left_in
from longhaul.fleet.directory import Directory, DirectoryInUseError, lock_instance
from longhaul.fleet.errors import FleetError
from longhaul.fleet.hosts import HostRecords
from longhaul.fleet.imds import Metadata
from longhaul.fleet.instance import machine_of
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import SHORTEST_LEASE_SECONDS, Terms
from longhaul.fleet.location import Location
from longhaul.fleet.machine import Lifecycle, Machine, Notice, NoticeKind, Notices
from longhaul.fleet.notices import InstanceNotices, Rehearsal
from longhaul.fleet.premises import DiskJournal, QueueOnHost
from longhaul.fleet.processes import Commands
from longhaul.fleet.runtime import real
from longhaul.fleet.store import S3Store, lease_client
from longhaul.fleet.transfer import transfer_client
from longhaul.fleet.worker import WAIT_SECONDS, Worker

TEST_LEASE = "LONGHAUL_FLEET_TEST_LEASE_SECONDS"  # of tests only: any number
LEFT_SECONDS = 20.0
EPILOG = """\b
Exit codes:
   0  nothing is left to do here; with --terminate-host the host has been retired
   1  it could not begin, or failed: it says why; started again, it goes on
   2  a wrong argument, or another worker works in the directory or on the instance
   3  the environment: no credentials, or S3 cannot be reached
  75  this host takes nothing for now: queries of it are not confirmed to have stopped, or two attempts in a row
      failed for a fault of its own, which the last line names: mend that, start the worker again
  76  the host was interrupted and has handed over; it is not retired
"""


@click.command(epilog=EPILOG, short_help="Work a queue off, on this host.")
@queue_argument
@click.option(
    "--results",
    help=f"Location of the stack's results (${RESULTS}, else results-location.txt in the directory).",
    envvar=RESULTS,
)
@click.option("--wait", is_flag=True, help="Wait an hour for the queue to be published.")
@click.option("--terminate-host", is_flag=True, help="Retire the instance when nothing is left to do, with decrement.")
@click.option(
    "--lease-seconds",
    type=click.FloatRange(min=SHORTEST_LEASE_SECONDS),
    default=600.0,
    show_default=True,
    help="How long a job is kept for a host that is not heard of; 300 at least.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    help="Where the worker keeps its files; one worker each.  [default: the current directory]",
)
def worker(
    keys: QueueKeys,
    results: str | None,
    wait: bool,
    terminate_host: bool,
    lease_seconds: float,
    directory: Path,
) -> None:
    """Work a queue off until nothing is left to do here. SIGTERM or Ctrl-C makes it hand over, within 100 s."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    place = Directory(directory.resolve())
    location = _location(results, place)
    try:
        lock = place.lock()
    except DirectoryInUseError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(
            f"the worker cannot write to {place.root} ({error.strerror}); give it another --directory"
        ) from error
    _end_what_was_left(place)
    code = _work(keys, location, place, terms(lease_seconds), wait=wait, terminate_host=terminate_host)
    os.close(lock)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a request that hangs in some thread keeps nobody (S37)


def terms(lease_seconds: float) -> Terms:
    """Of leases; a test may ask for shorter ones than an operator."""
    if not math.isfinite(lease_seconds):  # click's ranges let nan pass
        raise click.BadParameter(f"{lease_seconds} is no number of seconds", param_hint="'--lease-seconds'")
    return Terms.of(float(os.environ.get(TEST_LEASE) or lease_seconds))


def _end_what_was_left(directory: Directory) -> None:
    """Nothing of an earlier worker may run beside this one (I5)."""
    until = time.monotonic() + LEFT_SECONDS
    while not kill_left_in(str(directory.root)):
        if time.monotonic() >= until:
            raise FleetError(f"processes of an earlier worker in {directory.root} cannot be killed; see `ps e`")
        time.sleep(0.05)


def _location(results: str | None, directory: Directory) -> Location:
    text = results
    if text is None:
        try:
            text = directory.location.read_text()
        except OSError as error:
            raise click.UsageError(
                f"where do results go? Give --results s3://bucket/prefix/stack/, set {RESULTS}, or write it into"
                f" {directory.location}"
            ) from error
        try:
            return Location.parse(text)
        except FleetError as error:
            raise click.UsageError(f"{directory.location}: {error}") from error
    return Location.parse(text)


def _work(
    keys: QueueKeys, location: Location, directory: Directory, terms: Terms, *, wait: bool, terminate_host: bool
) -> int:
    machine, notices = _host(directory, terminate_host)
    if machine.identity.lifecycle is not Lifecycle.NONE:
        try:
            alone = lock_instance(machine.identity.instance, Metadata().endpoint)  # noqa: F841  kept until the end
        except DirectoryInUseError as error:
            raise click.UsageError(str(error)) from error
    _set_region(machine)
    runtime, version = real(), metadata.version("longhaul")
    store = S3Store(lease_client(), location.bucket, location.prefix)
    if not wait and queue.read(store, keys) is None:
        raise click.UsageError(
            f"there is no queue {keys.queue} at {location}, or it is not published yet: --wait waits"
        )
    say(f"{machine.identity.instance} works on {keys.queue} of {location}")
    work = Commands(
        keys=keys,
        location=location,
        directory=directory,
        deadline=DeadlineFile.create(directory.deadline),
        runtime=runtime,
        identity=machine.identity,
    )
    one = Worker(
        keys=keys,
        store=store,
        queue=QueueOnHost(
            store=store,
            keys=keys,
            directory=directory,
            location=location,
            transfers=transfer_client(),
            work=work,
            worker_version=version,
        ),
        machine=machine,
        notices=notices,
        work=work,
        hosts=HostRecords(
            store, keys, machine.identity, runtime, worker_version=version, directory=str(directory.root)
        ),
        journal=DiskJournal(directory),
        runtime=runtime,
        terms=terms,
        terminate_host=terminate_host,
        wait_seconds=WAIT_SECONDS if wait else 0.0,
    )

    def hand_over(number: int, frame: FrameType | None) -> None:
        one.hand_in(Notice(kind=NoticeKind.SIGTERM, text=signal.Signals(number).name))

    # also so that the commands begin without a SIGINT that is ignored, as in the background of a shell
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_over)
    return one.run()


def _set_region(machine: Machine) -> None:
    """Of all clients, and of the commands': as it is said, or where the instance is. boto3 reads one variable only."""
    said: str | None = os.environ.get("AWS_REGION") or boto3.Session().region_name or None
    if said is not None:
        os.environ["AWS_DEFAULT_REGION"] = said
    elif machine.identity.lifecycle is not Lifecycle.NONE:
        os.environ["AWS_DEFAULT_REGION"] = Metadata().region()


def _host(directory: Directory, terminate_host: bool) -> tuple[Machine, Notices]:
    known_to_have_none = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    machine = machine_of(None if known_to_have_none else Metadata(), directory.root, group_needed=terminate_host)
    if machine.identity.lifecycle is Lifecycle.NONE:
        return machine, Rehearsal(directory.rehearsal)
    return machine, InstanceNotices(Metadata(), directory.rehearsal)  # of a thread of its own
