"""Machines: an instance of a group, answered by botocore's stubs, and one alone (F9, F12, F16)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber

from longhaul.fleet.imds import Metadata, MetadataError
from longhaul.fleet.instance import HOOK, Alone, GroupInstance, machine_of
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.machine import Lifecycle, MachineError
from tests.unit.fleet.metadata_server import META, MetadataServer, metadata_server

INSTANCE = "i-0123456789abcdef0"
GROUP = f"{META}tags/instance/aws:autoscaling:groupName"
KEEP = f"{META}tags/instance/KeepHost"


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    """The service of an instance of the group `g`."""
    with metadata_server() as running:
        running.items[GROUP] = "g"
        yield running


@pytest.fixture
def stubbed(server: MetadataServer) -> Iterator[tuple[GroupInstance, Stubber]]:
    """The instance, and what Auto Scaling is to be asked and to answer."""
    client = boto3.client("autoscaling", region_name="us-west-2", aws_access_key_id="k", aws_secret_access_key="s")
    metadata = Metadata(server.endpoint)
    with Stubber(client) as stubber:
        yield GroupInstance(metadata, client, metadata.identity(), "g"), stubber
        stubber.assert_no_pending_responses()


def test_it_is_found_out(server: MetadataServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From metadata alone: no permission to describe anything is needed."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    machine = machine_of(Metadata(server.endpoint), tmp_path, group_needed=True)
    assert isinstance(machine, GroupInstance)
    assert machine._autoscaling.meta.region_name == "us-west-2"
    assert machine.identity.instance == INSTANCE
    assert machine.identity.lifecycle is Lifecycle.SPOT


def test_what_has_no_group(server: MetadataServer, tmp_path: Path) -> None:
    """F16: is enough for a worker that need not retire its host, and named if it must."""
    del server.items[GROUP]
    lone = machine_of(Metadata(server.endpoint), tmp_path, group_needed=False)
    assert isinstance(lone, Alone)
    assert lone.identity.instance == INSTANCE
    with pytest.raises(MachineError, match="no Auto Scaling group"):
        machine_of(Metadata(server.endpoint), tmp_path, group_needed=True)
    server.trouble["/latest/api/token"] = "reset"
    for metadata in (None, Metadata(server.endpoint)):
        nothing = machine_of(metadata, tmp_path, group_needed=False)
        assert nothing.identity == Alone(tmp_path).identity
        with pytest.raises(MachineError):
            machine_of(metadata, tmp_path, group_needed=True)


def test_the_groups_calls(stubbed: tuple[GroupInstance, Stubber]) -> None:
    """S4, F12, F16: each with this instance and this group, and termination with decrement."""
    machine, stubber = stubbed
    stubber.add_response("suspend_processes", {}, {"AutoScalingGroupName": "g", "ScalingProcesses": ["AZRebalance"]})
    machine.suspend_rebalancing()
    for busy in (True, False):
        asked = {"InstanceIds": [INSTANCE], "AutoScalingGroupName": "g", "ProtectedFromScaleIn": busy}
        stubber.add_response("set_instance_protection", {}, asked)
        machine.protect(busy)
    asked_to_end = {"InstanceId": INSTANCE, "ShouldDecrementDesiredCapacity": True}
    stubber.add_response("terminate_instance_in_auto_scaling_group", {}, asked_to_end)
    assert machine.retire()
    asked_to_go_on = {
        "LifecycleHookName": HOOK,
        "AutoScalingGroupName": "g",
        "LifecycleActionResult": "CONTINUE",
        "InstanceId": INSTANCE,
    }
    stubber.add_response("complete_lifecycle_action", {}, asked_to_go_on)
    machine.release_hook()


def test_what_is_refused_as_things_are(stubbed: tuple[GroupInstance, Stubber]) -> None:
    """F16, I10: at MinSize the worker goes on scanning; a hook that does not wait is no error."""
    machine, stubber = stubbed
    stubber.add_client_error("terminate_instance_in_auto_scaling_group", "ValidationError", http_status_code=400)
    assert machine.retire() is False
    stubber.add_client_error("complete_lifecycle_action", "ValidationError", http_status_code=400)
    machine.release_hook()
    for operation, ask in (
        ("suspend_processes", machine.suspend_rebalancing),
        ("set_instance_protection", lambda: machine.protect(True)),
    ):
        stubber.add_client_error(operation, "ValidationError", http_status_code=400)
        with pytest.raises(MachineError, match="ValidationError"):
            ask()


@pytest.mark.parametrize("code", ["AccessDenied", "ScalingActivityInProgress", "InternalFailure", None])
def test_every_other_error_is_one(
    stubbed: tuple[GroupInstance, Stubber], monkeypatch: pytest.MonkeyPatch, code: str | None
) -> None:
    """F16, S77: not "refused", which would be final for this scan's view of the group."""
    machine, stubber = stubbed

    def hangs(**named: Any) -> None:
        raise ReadTimeoutError(endpoint_url="x")

    for operation, ask in (
        ("terminate_instance_in_auto_scaling_group", machine.retire),
        ("complete_lifecycle_action", machine.release_hook),
        ("suspend_processes", machine.suspend_rebalancing),
    ):
        if code is None:
            monkeypatch.setattr(machine._autoscaling, operation, hangs)
        else:
            stubber.add_client_error(operation, code)
        with pytest.raises(MachineError):
            ask()


@pytest.mark.parametrize(
    ("tag", "expected"), [(None, False), ("true", True), ("True", True), ("false", False), ("", False)]
)
def test_a_host_that_is_kept(
    server: MetadataServer, stubbed: tuple[GroupInstance, Stubber], tag: str | None, expected: bool
) -> None:
    """F16: by its tag, as it is now."""
    machine, _ = stubbed
    if tag is not None:
        server.items[KEEP] = tag
    assert machine.keep() is expected
    server.trouble[KEEP] = 500
    with pytest.raises(MetadataError):
        machine.keep()


def test_a_machine_alone(tmp_path: Path) -> None:
    """F14: its name is that of its directory on this host, and can stand in a key."""
    one, same, other = Alone(tmp_path / "a"), Alone(tmp_path / "a"), Alone(tmp_path / "b")
    assert one.identity == same.identity != other.identity
    assert one.identity.lifecycle is Lifecycle.NONE
    assert QueueKeys("q").claim(one.identity.instance)
    assert one.keep() is False
    assert one.retire() is True
    one.suspend_rebalancing()
    one.protect(True)
    one.release_hook()
