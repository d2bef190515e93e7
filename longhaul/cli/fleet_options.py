"""Arguments that several verbs of `longhaul fleet` share, and the clients that they lead to."""

from __future__ import annotations

import os
from typing import Any

import boto3
import click
from botocore.config import Config

from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.queue import PublishedQueue, read
from longhaul.fleet.stack import CONCURRENT, Stack

RESULTS = "LONGHAUL_FLEET_RESULTS"
# Of operators' verbs: botocore owns the tries, but for writes, which are settled by a look.
CONFIG = Config(
    connect_timeout=5,
    read_timeout=20,
    retries={"mode": "standard", "total_max_attempts": 4},
    max_pool_connections=CONCURRENT,
)


class QueueType(click.ParamType[QueueKeys]):
    """The name of a queue."""

    name = "QUEUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> QueueKeys:
        """Refuse a name that could not stand in a key."""
        if isinstance(value, QueueKeys):
            return value
        try:
            return QueueKeys(str(value))
        except FleetError as error:
            self.fail(str(error), param, ctx)


class LocationType(click.ParamType[Location]):
    """`s3://bucket/prefix/`."""

    name = "s3://…/"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        """Refuse anything else."""
        if isinstance(value, Location):
            return value
        try:
            return Location.parse(str(value))
        except FleetError as error:
            self.fail(str(error), param, ctx)


queue_argument = click.argument("keys", metavar="QUEUE", type=QueueType())
results_option = click.option(
    "--results", type=LocationType(), envvar=RESULTS, help=f"Location of the stack's results (${RESULTS})."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def session() -> boto3.Session:
    """The ordinary AWS set-up; AWS_REGION counts too, which boto3 does not read."""
    return boto3.Session(region_name=os.environ.get("AWS_REGION"))


def stack_of(results: Location | None) -> Stack:
    """The stack whose objects a verb is about."""
    if click.get_current_context().find_root().params.get("env"):
        raise click.UsageError("fleet verbs cannot look up the stack of an --env yet: give --results instead")
    if results is None:
        raise click.UsageError(
            f"where are the results? Give --results s3://bucket/prefix/stack/, or set {RESULTS} to it"
        )
    return Stack(session().client("s3", config=CONFIG), results)


def published(stack: Stack, keys: QueueKeys) -> PublishedQueue:
    """The queue; it must be published."""
    found = read(stack.store, keys)
    if found is None:
        others = [name for name in stack.queues() if name != keys.queue]
        known = f"; there are {', '.join(others[:10])}" if others else ""
        raise FleetError(f"there is no queue {keys.queue} at {stack.location}, or it is not published yet{known}")
    return found
