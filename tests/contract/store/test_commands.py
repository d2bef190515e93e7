"""The operator's commands on a real S3 (F25); what lies below them is held to both stores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner, Result

from longhaul.cli import fleet_steer, main
from longhaul.fleet import lease, queue
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.hosts import HostRecords, stored
from longhaul.fleet.instance import Alone
from longhaul.fleet.keys import QueueKeys, slot
from longhaul.fleet.lease import Completion, Outcome, Owner, State, Terms
from longhaul.fleet.location import Location
from longhaul.fleet.machine import Identity, Lifecycle
from longhaul.fleet.runtime import real
from longhaul.fleet.stack import Stack
from longhaul.fleet.surroundings import Doing, HostRecord
from tests.unit.fleet.metadata_server import DOCUMENT, META, metadata_server

KEYS = QueueKeys("q")
CONFIG = """
[run]
id = "june"
warmups = 0
repetitions = 2
[[case]]
name = "light"
api_weight = 0
[case.parameters]
command = ["true"]
[[case]]
name = "heavy"
api_weight = 2
[case.parameters]
command = ["true"]
"""
Fleet = Callable[..., Result]
pytestmark = pytest.mark.parametrize("client", ["moto"], indirect=True)


@pytest.fixture
def stack(client: Any, location: str) -> Stack:
    """An empty one."""
    return Stack(client, Location(bucket="fleet", prefix=location))


@pytest.fixture
def environment(client: Any, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of an operator, and nothing of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "LONGHAUL_"))]:
        monkeypatch.delenv(name)
    keys = client._request_signer._credentials
    set_up = {
        "AWS_ENDPOINT_URL": client.meta.endpoint_url.replace("localhost", "127.0.0.1"),
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "LONGHAUL_FLEET_RESULTS": str(stack.location),
    }
    for name, value in set_up.items():
        monkeypatch.setenv(name, value)
    return set_up


@pytest.fixture
def fleet(environment: dict[str, str]) -> Fleet:
    """`longhaul fleet …`."""

    def run(*arguments: object, **options: Any) -> Result:
        return CliRunner().invoke(main, ["fleet", *map(str, arguments)], **options)

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two cases."""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def jobs(fleet: Fleet, config: Path) -> list[str]:
    """Of a queue that is published, the light one first."""
    published = fleet("publish", "q", "--config", config, "--api-slots", 2)
    assert published.exit_code == 0, published.output
    return [one["job"] for one in json.loads(fleet("status", "q", "--json").stdout)["claims"]]


def finish(stack: Stack, job: str, outcome: Outcome = Outcome.SUCCESS) -> None:
    """Let a worker do it."""
    holding = Holding(KEYS.claim(job), Owner(instance="i-1", worker="w"), stack.store, real(), Terms.of(600))
    assert holding.take(lease.seen(stack.store.get(KEYS.claim(job)))) is Verdict.STANDS
    assert holding.complete(Completion(outcome=outcome, exit_code=0)) is Verdict.COMPLETED


# ---- publish ---------------------------------------------------------------------------------------------------------
def test_a_dry_run_publishes_nothing(fleet: Fleet, stack: Stack, config: Path) -> None:
    """F25: it shows the jobs."""
    shown = fleet("publish", "q", "--config", config, "--api-slots", 2, "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "2 jobs of run june, 4 repetitions; the heaviest needs 2 of 2 API slots" in shown.stderr
    assert len(shown.stdout.splitlines()) == 3
    assert not stack.queues()


def test_publish_and_look(fleet: Fleet, stack: Stack, config: Path) -> None:
    """F25: stdout has the place alone; the queue is what workers read."""
    done = fleet("publish", "q", "--config", config, "--api-slots", 2)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{stack.location}fleet/q/\n"
    found = queue.read(stack.store, KEYS)
    assert found is not None
    assert [job.api_weight for job in found.documents.jobs] == [0, 2]
    again = fleet("publish", "q", "--config", config, "--api-slots", 2)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "Error: queue q is published already; choose another name" in again.stderr
    other = fleet("publish", "other", "--config", config, "--api-slots", 2, "--dry-run")
    assert other.exit_code == 1
    assert "queue q of this stack is unfinished, 2 jobs" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("q", "--api-slots", 1), 1, "needs 2 API slots, the queue has 1"),
        (("q", "--api-slots", 0), 2, "--api-slots"),
        (("q",), 2, "--api-slots"),
        (("../q", "--api-slots", 2), 2, "cannot be part of a key"),
        (("q", "--api-slots", 2, "--results", "bucket/x"), 2, "s3://bucket/prefix/"),
        (("q", "--api-slots", 2, "--results", "s3://no-such-bucket/x"), 1, "NoSuchBucket"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    fleet: Fleet, stack: Stack, config: Path, arguments: tuple[object, ...], code: int, said: str
) -> None:
    """R22, S74: and nothing is published."""
    done = fleet("publish", *arguments, "--config", config)
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert not stack.queues()


def test_a_traceback_is_shown_if_asked_for(fleet: Fleet, environment: dict[str, str]) -> None:
    """R22: of fleet verbs too, whose group explains errors itself."""
    asked = CliRunner().invoke(main, ["--debug", "fleet", "status", "nope"])
    assert asked.exit_code == 1
    assert "Traceback" in asked.stderr
    assert "Traceback" not in fleet("status", "nope").stderr


def test_where_results_are_must_be_said(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F25: stacks cannot be looked up yet, and an --env is not silently ignored."""
    monkeypatch.delenv("LONGHAUL_FLEET_RESULTS")
    asked = fleet("status", "q")
    assert asked.exit_code == 2
    assert "--results s3://bucket/prefix/stack/" in asked.stderr
    named = CliRunner().invoke(main, ["--env", "dev", "fleet", "status", "q"])
    assert named.exit_code == 2
    assert "--env" in named.stderr


def test_a_file_that_is_no_configuration(fleet: Fleet, stack: Stack, config: Path) -> None:
    """B6: said by whoever reads it."""
    config.write_text("[run]\n")
    done = fleet("publish", "q", "--config", config, "--api-slots", 2)
    assert done.exit_code == 2
    assert "config.toml" in done.stderr
    assert not stack.queues()


def test_credentials_that_are_none(fleet: Fleet, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R22: the environment's fault, exit code 3."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    done = fleet("status", "q")
    assert done.exit_code == 3
    assert "no usable AWS credentials" in done.stderr


# ---- status ----------------------------------------------------------------------------------------------------------
def test_status_in_both_forms(fleet: Fleet, stack: Stack, jobs: list[str]) -> None:
    """F25: claims with host, attempt and state, slots, hosts; the same facts for people and for programs."""
    holding = Holding(KEYS.claim(jobs[0]), Owner(instance="i-7", worker="w7"), stack.store, real(), Terms.of(600))
    assert holding.take(None) is Verdict.STANDS
    finish(stack, jobs[1], Outcome.REPORT_ERROR)
    records = HostRecords(
        stack.store, KEYS, Identity(instance="i-7", zone="us-west-2b"), real(), worker_version="1", directory="/w"
    )
    records.write(HostRecord(worker="w7", doing=Doing.RUNNING, started=real().wall(), job=jobs[0]))
    said = json.loads(fleet("status", "q", "--json").stdout)
    assert said["jobs"] == {"running": 1, "failed": 1}
    assert (said["finished"], said["failed"], said["paused"]) == (False, True, False)
    assert [(one["host"], one["attempt"], one["outcome"]) for one in said["claims"]] == [
        ("i-7", 1, None),
        ("i-1", 1, "report_error"),
    ]
    assert [(one["number"], one["state"]) for one in said["slots"]] == [(0, "free"), (1, "free")]
    assert (said["hosts"][0]["instance"], said["hosts"][0]["doing"], said["hosts"][0]["alive"]) == (
        "i-7",
        "running",
        True,
    )
    shown = fleet("status", "q")
    assert shown.exit_code == 0
    for words in ("1 running, 1 failed of 2 jobs", "0 of 2 taken", "g0/attempt-1", "report_error", "us-west-2b"):
        assert words in shown.stdout, shown.stdout
    assert "requeue q JOB" in shown.stderr


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.SUCCESS, 0), (Outcome.FAILED, 1)])
def test_watch_ends_with_the_queue(
    fleet: Fleet, stack: Stack, jobs: list[str], monkeypatch: pytest.MonkeyPatch, outcome: Outcome, code: int
) -> None:
    """F25: its exit code says whether all went well; stdout has the end alone."""
    left = list(jobs)

    def rest(seconds: float) -> None:
        assert seconds == 3
        finish(stack, left.pop(), outcome if left else Outcome.SUCCESS)

    monkeypatch.setattr("longhaul.cli.fleet_status.time.sleep", rest)
    watched = fleet("status", "q", "--watch", "--interval", 3)
    assert watched.exit_code == code, watched.output
    assert "q: 2 pending of 2 jobs" in watched.stderr
    assert f"{jobs[0]}: done" in watched.stderr or f"{jobs[0]}: failed" in watched.stderr
    assert watched.stdout.count("of 2 jobs") == 1


def test_a_queue_that_is_not_there(fleet: Fleet, jobs: list[str]) -> None:
    """R22: with the names of those that are."""
    asked = fleet("status", "nope")
    assert asked.exit_code == 1
    assert "there is no queue nope at" in asked.stderr
    assert "there are q" in asked.stderr


# ---- requeue, pause --------------------------------------------------------------------------------------------------
def test_requeue(fleet: Fleet, stack: Stack, jobs: list[str]) -> None:
    """F25: what is done, and only that; --resume keeps what was measured."""
    finish(stack, jobs[0])
    tried = fleet("requeue", "q", *jobs, "--dry-run")
    assert tried.exit_code == 0
    assert tried.stdout == f"{jobs[0]}: would be requeued\n{jobs[1]}: is not done, and would be left alone\n"
    done = fleet("requeue", "q", *jobs, "--resume")
    assert done.exit_code == 1
    assert done.stdout == f"{jobs[0]}: requeued, generation 1, with what was measured\n"
    assert f"job {jobs[1]} has no claim yet" in done.stderr
    now = lease.seen(stack.store.get(KEYS.claim(jobs[0])))
    assert now is not None
    assert now.lease is not None
    assert (now.lease.state, now.lease.generations) == (State.RELEASED, range(2))
    wrong = fleet("requeue", "q", "typo", jobs[0])
    assert wrong.exit_code == 2
    assert "no job typo; nothing was requeued" in wrong.stderr


def test_pause_and_resume(fleet: Fleet, stack: Stack, jobs: list[str]) -> None:
    """F25: and `status` shows it."""
    paused = KEYS.document("paused.json")
    assert fleet("pause", "q", "--dry-run").stdout == "q: would be paused\n"
    assert stack.store.get(paused) is None
    assert fleet("pause", "q", "--reason", "a look").stdout == "q: paused\n"
    assert fleet("pause", "q").stdout == "q: was paused already\n"
    assert json.loads(fleet("status", "q", "--json").stdout)["paused"] is True
    assert fleet("resume", "q", "--dry-run").stdout == "q: would be resumed\n"
    assert stack.store.get(paused) is not None
    assert fleet("resume", "q").stdout == "q: resumed\n"
    assert fleet("resume", "q").stdout == "q: was not paused\n"
    assert fleet("pause", "typo").exit_code == 1


# ---- rehearse --------------------------------------------------------------------------------------------------------
def record(stack: Stack, identity: Identity, directory: Path, doing: Doing = Doing.RUNNING) -> None:
    """What a host's worker said last."""
    records = HostRecords(stack.store, KEYS, identity, real(), worker_version="1", directory=str(directory))
    records.write(HostRecord(worker="w", doing=doing, started=real().wall(), why="all done"))


def test_rehearse_a_worker_of_this_machine(
    fleet: Fleet, stack: Stack, jobs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F12, F25: its file appears, and the verb waits for the worker's word."""
    identity = Alone(tmp_path).identity
    notice = tmp_path / "interruption-notice"
    record(stack, identity, tmp_path)
    tried = fleet("rehearse", "q", identity.instance, "--dry-run")
    assert tried.exit_code == 0
    assert str(notice) in tried.stdout
    unasked = fleet("rehearse", "q", identity.instance)
    assert unasked.exit_code == 2
    assert "give --yes" in unasked.stderr
    assert not notice.exists()

    def hand_over(seconds: float) -> None:
        assert "rehearsal from" in notice.read_text()
        record(stack, identity, tmp_path, Doing.ENDED)

    monkeypatch.setattr("longhaul.cli.fleet_steer.time.sleep", hand_over)
    done = fleet("rehearse", "q", identity.instance, "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{identity.instance}: handed over\n"
    over = fleet("rehearse", "q", identity.instance, "--yes")
    assert over.exit_code == 1
    assert "has ended already: all done" in over.stderr


def test_rehearse_an_instance(fleet: Fleet, stack: Stack, jobs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """F25, S20: through Systems Manager; terminated without decrement, and only once the worker has handed over."""
    identity = Identity(instance="i-0123456789abcdef0", lifecycle=Lifecycle.SPOT)
    directory = Path("/opt/long haul")
    record(stack, identity, directory)
    ssm = fleet_steer.session().client("ssm")
    autoscaling = fleet_steer.session().client("autoscaling")
    clients = {"ssm": ssm, "autoscaling": autoscaling}
    real_session = fleet_steer.session

    class Session:
        """Clients with stubs; S3's is real."""

        def client(self, service: str, **how: Any) -> Any:
            return clients.get(service) or real_session().client(service, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(fleet_steer, "session", Session)
    with Stubber(ssm) as to_ssm, Stubber(autoscaling) as to_group:
        to_ssm.add_response("send_command", {"Command": {"CommandId": "0" * 36}})
        late = fleet("rehearse", "q", identity.instance, "--yes", "--wait", 0)
        assert late.exit_code == 1
        assert "nothing was terminated" in late.stderr
        to_ssm.add_client_error("send_command", "InvalidInstanceId")
        unknown = fleet("rehearse", "q", identity.instance, "--yes")
        assert unknown.exit_code == 1
        assert "Systems Manager does not reach" in unknown.stderr

        commands: list[str] = []

        def noted(params: dict[str, Any], **named: Any) -> None:
            commands.extend(params["Parameters"]["commands"])
            record(stack, identity, directory, Doing.ENDED)

        ssm.meta.events.register("provide-client-params.ssm.SendCommand", noted)
        to_ssm.add_response("send_command", {"Command": {"CommandId": "0" * 36}})
        asked = {"InstanceId": identity.instance, "ShouldDecrementDesiredCapacity": False}
        to_group.add_response("terminate_instance_in_auto_scaling_group", {}, asked)
        done = fleet("rehearse", "q", identity.instance, "--yes")
        assert done.exit_code == 0, done.output
        assert done.stdout.endswith("handed over, and terminated without decrement\n")
        to_group.assert_no_pending_responses()
        assert "'/opt/long haul/interruption-notice'" in commands[0]


def test_the_command_of_a_rehearsal(stack: Stack, tmp_path: Path) -> None:
    """F12: a shell makes of it the file, whole."""
    from longhaul.fleet.operations import rehearsal_command

    odd = tmp_path / "it's a $HOME"
    odd.mkdir()
    record(stack, Identity(instance="i-2"), odd)
    host = stored(stack.store.get(KEYS.host("i-2")))
    assert host is not None
    subprocess.run(["sh", "-c", rehearsal_command(host, "it's %s a drill")], check=True, timeout=20)
    assert [path.name for path in odd.iterdir()] == ["interruption-notice"]
    assert (odd / "interruption-notice").read_text() == "it's %s a drill\n"


def test_hosts_that_cannot_be_rehearsed(fleet: Fleet, stack: Stack, jobs: list[str], tmp_path: Path) -> None:
    """R22: unknown ones, and those elsewhere."""
    unknown = fleet("rehearse", "q", "i-9", "--yes")
    assert unknown.exit_code == 1
    assert "no host i-9 has worked on q" in unknown.stderr
    record(stack, Identity(instance="elsewhere-1"), tmp_path)
    elsewhere = fleet("rehearse", "q", "elsewhere-1", "--yes")
    assert elsewhere.exit_code == 1
    assert "not this machine" in elsewhere.stderr
    assert not (tmp_path / "interruption-notice").exists()


# ---- worker ----------------------------------------------------------------------------------------------------------
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
        assert left.wait(1) == -signal.SIGKILL
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
