"""The operator's commands on a real S3 (F25); what lies below them is held to both stores."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from click.testing import CliRunner

from longhaul.cli import fleet_steer, main
from longhaul.fleet import lease, queue
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.hosts import HostRecords, stored
from longhaul.fleet.instance import Alone
from longhaul.fleet.lease import Outcome, Owner, State, Terms
from longhaul.fleet.machine import Identity, Lifecycle
from longhaul.fleet.runtime import real
from longhaul.fleet.stack import Stack
from longhaul.fleet.surroundings import Doing, HostRecord
from tests.contract.store.commands.conftest import KEYS, Fleet, finish

pytestmark = pytest.mark.parametrize("client", ["moto"], indirect=True)


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
        (("q", "--api-slots", 2, "--results", "s3://no-such-bucket/x"), 1, "NoSuchBucket no-such-bucket: "),
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
    assert f"{stack.location}fleet/q/results/JOB/, in job-summary.md" in shown.stderr


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
    assert ": pending" not in watched.stderr, "the first look shows no changes"
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
