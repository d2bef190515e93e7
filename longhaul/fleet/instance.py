"""The two kinds of hosts: an instance of an Auto Scaling group, and a machine that has none (F9, F12, F16)."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from longhaul.fleet.imds import Metadata
from longhaul.fleet.machine import Identity, Machine, MachineError

HOOK = "longhaul-fleet-worker"  # name of the group's terminating lifecycle hook
CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
_GROUP = "tags/instance/aws:autoscaling:groupName"
_KEEP = "tags/instance/KeepHost"
_INVALID = (
    "ValidationError"  # all that Auto Scaling says of a request that cannot be met in the state that things are in
)


class _RefusedError(MachineError):
    """Auto Scaling will not do it as things are."""


class GroupInstance:
    """The `Machine` of an instance. Its tags come from its metadata, which EC2 keeps up to date."""

    def __init__(self, metadata: Metadata, autoscaling: Any, identity: Identity, group: str) -> None:
        self.identity = identity
        self._metadata, self._autoscaling, self._group = metadata, autoscaling, group

    def keep(self) -> bool:
        """See `Machine.keep`."""
        return (self._metadata.item(_KEEP) or "").strip().lower() == "true"

    def suspend_rebalancing(self) -> None:
        """See `Machine.suspend_rebalancing`."""
        with _asking("SuspendProcesses"):
            self._autoscaling.suspend_processes(AutoScalingGroupName=self._group, ScalingProcesses=["AZRebalance"])

    def protect(self, busy: bool) -> None:
        """See `Machine.protect`."""
        with _asking("SetInstanceProtection"):
            self._autoscaling.set_instance_protection(
                InstanceIds=[self.identity.instance], AutoScalingGroupName=self._group, ProtectedFromScaleIn=busy
            )

    def retire(self) -> bool:
        """See `Machine.retire`."""
        try:
            with _asking("TerminateInstanceInAutoScalingGroup"):
                self._autoscaling.terminate_instance_in_auto_scaling_group(
                    InstanceId=self.identity.instance, ShouldDecrementDesiredCapacity=True
                )
        except _RefusedError:
            return False
        return True

    def release_hook(self) -> None:
        """See `Machine.release_hook`."""
        with contextlib.suppress(_RefusedError), _asking("CompleteLifecycleAction"):  # refused: none waits
            self._autoscaling.complete_lifecycle_action(
                LifecycleHookName=HOOK,
                AutoScalingGroupName=self._group,
                LifecycleActionResult="CONTINUE",
                InstanceId=self.identity.instance,
            )


class Alone:
    """The `Machine` of a process without a group: nothing replaces it and nothing scales it in."""

    def __init__(self, directory: Path, identity: Identity | None = None) -> None:
        """Named for host and directory if it is no instance: that is what one worker at a time has (F14)."""
        if identity is not None:
            self.identity = identity
            return
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64].lstrip(".-") or "host"
        self.identity = Identity(instance=f"{host}-{hashlib.sha256(bytes(directory.resolve())).hexdigest()[:8]}")

    def keep(self) -> bool:
        """See `Machine.keep`."""
        return False

    def suspend_rebalancing(self) -> None:
        """See `Machine.suspend_rebalancing`."""

    def protect(self, busy: bool) -> None:
        """See `Machine.protect`."""

    def retire(self) -> bool:
        """See `Machine.retire`: the process ends."""
        return True

    def release_hook(self) -> None:
        """See `Machine.release_hook`."""


def machine_of(metadata: Metadata | None, directory: Path, *, group_needed: bool) -> Machine:
    """Find out what a worker runs on; None for a machine that is known to have no metadata service.

    An instance without a group counts, and so does no instance at all, unless a group is needed: then `MachineError`
    says what is missing.
    """
    try:
        if metadata is None:
            raise MachineError("there is no metadata service here")
        identity = metadata.identity()
        group = metadata.item(_GROUP)
    except MachineError:
        if group_needed:
            raise
        return Alone(directory)
    if metadata is not None and group:
        client = boto3.client("autoscaling", region_name=metadata.region(), config=CONFIG)
        return GroupInstance(metadata, client, identity, group)
    if group_needed:
        raise MachineError(
            f"{identity.instance} belongs to no Auto Scaling group, or its tags are not in its metadata"
            " (InstanceMetadataTags: enabled)"
        )
    return Alone(directory, identity)


@contextlib.contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        raise (_RefusedError if code == _INVALID else MachineError)(f"{what}: {code}") from error
    except (BotoCoreError, ResponseParserError) as error:
        raise MachineError(f"{what}: {type(error).__name__}") from error
