"""`longhaul fleet worker` as a process (F5, F9, F12, F16, S58)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from longhaul.fleet import lease
from longhaul.fleet.hosts import stored
from longhaul.fleet.keys import slot
from longhaul.fleet.lease import State
from longhaul.fleet.stack import Stack
from longhaul.fleet.surroundings import Doing
from tests.contract.store.commands.conftest import CONFIG, KEYS, Fleet, finish
from tests.unit.fleet.metadata_server import DOCUMENT, META, metadata_server

pytestmark = pytest.mark.parametrize("client", ["moto"], indirect=True)


def start(environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    """Start a worker as systemd does."""
    return subprocess.Popen(
        [sys.executable, "-m", "longhaul.cli", "fleet", "worker", *map(str, arguments)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    """Its exit code, and what it said."""
    try:
        _, said = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("q", "--lease-seconds", 299), "300"),
        (("q", "--lease-seconds", "nan"), "nan is no number of seconds"),
        (("../q",), "cannot be part of a key"),
        (("q", "--results", "x"), "s3://bucket/prefix/"),
        (("typo",), "--wait waits"),
    ],
)
def test_a_worker_that_cannot_begin(
    environment: dict[str, str], jobs: list[str], tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    """F5, R22: exit code 2, in a line."""
    code, shown = ended(start(environment, *arguments, "--directory", tmp_path / "w"))
    assert code == 2, shown
    assert said in shown
    assert "Traceback" not in shown


def test_a_worker_takes_the_location_from_its_directory(
    environment: dict[str, str], stack: Stack, jobs: list[str], tmp_path: Path
) -> None:
    """F9: of a file that user data leaves; with everything done it goes home, and says so."""
    for job in jobs:
        finish(stack, job)
    del environment["LONGHAUL_FLEET_RESULTS"]
    os.environ.pop("LONGHAUL_FLEET_RESULTS")
    code, shown = ended(start(environment, "q", "--directory", tmp_path))
    assert code == 2
    assert "results-location.txt" in shown
    (tmp_path / "results-location.txt").write_text("nonsense\n")
    code, shown = ended(start(environment, "q", "--directory", tmp_path))
    assert (code, "results-location.txt: 'nonsense" in shown) == (2, True), shown
    (tmp_path / "results-location.txt").write_text(f"{stack.location}\n")
    code, shown = ended(start(environment, "q", "--directory", tmp_path))
    assert code == 0, shown
    (key,) = [one.key for one in stack.store.list(KEYS.hosts).objects]
    host = stored(stack.store.get(key))
    assert host is not None
    assert (host.doing, host.directory) == (Doing.ENDED, str(tmp_path))


def test_a_damaged_slot_is_told_from_a_free_one(fleet: Fleet, stack: Stack, jobs: list[str]) -> None:
    """F25: nobody takes it, so that a queue may stand still."""
    assert stack.store.put(slot(0), b"{", replaces=None) is not None
    shown = fleet("status", "q")
    assert " taken, 1 damaged or of another version, which nobody takes" in shown.stdout


def test_a_directory_that_cannot_be_written_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    """R22: one line, and what to do."""
    (tmp_path / "file").touch()
    code, shown = ended(start(environment, "q", "--directory", tmp_path / "file" / "worker"))
    assert code == 2
    assert "(Not a directory); give it another --directory" in shown
    assert "Traceback" not in shown


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_an_old_worker_left_is_ended_first(
    environment: dict[str, str], stack: Stack, jobs: list[str], tmp_path: Path
) -> None:
    """I5, F14: before its host's claims are taken over."""
    for job in jobs:
        finish(stack, job)
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, "LONGHAUL_FLEET_DIRECTORY": str(tmp_path)},
        start_new_session=True,
    )
    try:
        code, shown = ended(start(environment, "q", "--directory", tmp_path))
        assert code == 0, shown
        assert left.wait(20) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait(20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_waiting_worker_ends_on_a_signal(
    environment: dict[str, str], jobs: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    """F13, F14: nothing is held, exit code 76; meanwhile nobody else gets its directory."""
    process = start(environment, "later", "--wait", "--directory", tmp_path)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "deadline").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        code, shown = ended(start(environment, "later", "--wait", "--directory", tmp_path))
        assert code == 2
        assert "another worker works in" in shown
        time.sleep(1)  # the signals are caught by then
        process.send_signal(number)
    finally:
        code, shown = ended(process)
    assert code == 76, shown


def test_s58_an_instance_that_is_reclaimed(
    environment: dict[str, str], fleet: Fleet, stack: Stack, config: Path, tmp_path: Path
) -> None:
    """S58, L3, F13: EC2's notice reaches a worker with a trial in hand, after answers that were none."""
    command = json.dumps(["sh", "-c", f"echo $AWS_DEFAULT_REGION > {tmp_path}/region; sleep 60"])
    head = CONFIG.split("[[case]]")[0]
    config.write_text(f'{head}[[case]]\nname = "slow"\n[case.parameters]\ncommand = {command}\n')
    assert fleet("publish", "q", "--config", config, "--api-slots", 1).exit_code == 0
    (job,) = [one["job"] for one in json.loads(fleet("status", "q", "--json").stdout)["claims"]]
    action = f"{META}spot/instance-action"
    with metadata_server() as server:
        server.trouble[action] = "half"
        del environment["AWS_REGION"]
        os.environ.pop("AWS_REGION")
        environment |= {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.endpoint}
        process = start(environment, "q", "--directory", tmp_path / "w")
        try:
            end = time.monotonic() + 60
            while not list((tmp_path / "w").glob("results/*/*/*/checkpoint/*-start.json")):
                assert time.monotonic() < end
                time.sleep(0.1)
            while server.requests.count(f"GET {action}") < 2:
                assert time.monotonic() < end
                time.sleep(0.1)
            assert process.poll() is None
            if sys.platform == "linux":  # I1, F14: it would take over what the first one runs
                code, shown = ended(start(environment, "q", "--directory", tmp_path / "second"))
                assert code == 2, shown
                assert "another worker works on i-0123456789abcdef0" in shown
            server.items[action] = '{"action": "terminate", "time": "2030-01-01T00:00:00Z"}'
            server.trouble.clear()
            before = time.monotonic()
        finally:
            code, shown = ended(process, 100)
        assert code == 76, shown
        assert time.monotonic() - before < 60
    now = lease.seen(stack.store.get(KEYS.claim(job)))
    assert now is not None
    assert now.lease is not None
    assert (now.lease.state, now.lease.owner.instance) == (State.INTERRUPTED, "i-0123456789abcdef0")
    host = stored(stack.store.get(KEYS.host("i-0123456789abcdef0")))
    assert host is not None
    assert (host.doing, host.lifecycle, host.zone) == (Doing.ENDED, "spot", "us-west-2b")
    assert host.why is not None
    assert host.why.startswith("terminate: ")
    assert (tmp_path / "region").read_text() == "us-west-2\n", "where the instance is, if nobody said it"


def test_an_instance_that_has_nothing_left_to_do_is_retired(
    environment: dict[str, str], client: Any, stack: Stack, jobs: list[str], tmp_path: Path
) -> None:
    """F9, F16, S4: through its group, with decrement, and with rebalancing suspended before."""
    ec2, group = (
        boto3.client(
            service,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )
        for service in ("ec2", "autoscaling")
    )
    (image, *_) = ec2.describe_images()["Images"]
    (subnet, *_) = ec2.describe_subnets()["Subnets"]
    name = f"g-{stack.location.prefix.strip('/')}"
    group.create_launch_configuration(LaunchConfigurationName=name, ImageId=image["ImageId"], InstanceType="m7i.large")
    group.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchConfigurationName=name,
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=2,
        VPCZoneIdentifier=subnet["SubnetId"],
    )

    def described() -> dict[str, Any]:
        found: dict[str, Any] = group.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
        return found

    mine, other = (one["InstanceId"] for one in described()["Instances"])
    for job in jobs:
        finish(stack, job)
    with metadata_server() as server:
        server.items["/latest/dynamic/instance-identity/document"] = json.dumps(
            {**DOCUMENT, "instanceId": mine, "region": "us-east-1"}
        )
        server.items[f"{META}tags/instance/aws:autoscaling:groupName"] = name
        environment |= {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.endpoint}
        code, shown = ended(start(environment, "q", "--terminate-host", "--directory", tmp_path / "w"))
    assert code == 0, shown
    left = described()
    assert [one["InstanceId"] for one in left["Instances"]] == [other]
    assert left["DesiredCapacity"] == 1
    assert [one["ProcessName"] for one in left["SuspendedProcesses"]] == ["AZRebalance"]
    (state,) = ec2.describe_instances(InstanceIds=[mine])["Reservations"][0]["Instances"]
    assert state["State"]["Name"] in ("terminated", "shutting-down")
