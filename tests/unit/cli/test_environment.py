"""Which AWS a verb talks to, and what it says when there is none (exit 3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

from longhaul.cli import main
from longhaul.cli.environment import ENVIRONMENTS, Environment
from stacks import settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGHAUL_SANDBOX_DIR", str(tmp_path))
    monkeypatch.delenv("LONGHAUL_ENV", raising=False)
    return tmp_path


def state(folder: Path, **fields: Any) -> None:
    env = {
        "AWS_ENDPOINT_URL": "http://localhost:1",
        "AWS_ACCESS_KEY_ID": "sandbox-key",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "eu-west-1",
    }
    whole = {"pid": os.getpid(), "status": "ready", "env": env} | fields
    (folder / "state.json").write_text(json.dumps(whole))


def list_runs(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["reimport", "list", *arguments])
    return done.exit_code, done.stderr


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_no_sandbox(folder: Path) -> None:
    code, said = list_runs()
    assert code == 3
    assert "longhaul sandbox up" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"status": "starting"}, "is starting"), ({"status": "failed"}, "is failed"), ({"pid": None}, "cannot be read")],
)
def test_a_sandbox_that_cannot_be_used(folder: Path, fields: dict[str, Any], word: str) -> None:
    state(folder, **fields)
    code, said = list_runs("--env", "sandbox")
    assert code == 3
    assert word in said


def test_a_dead_sandbox(folder: Path) -> None:
    state(folder, pid=dead_pid())
    assert list_runs() == (3, "Error: the sandbox has died; start it again with `longhaul sandbox up --detach`\n")


def test_the_sandbox_is_reached_by_its_state_file(folder: Path) -> None:
    state(folder)
    client = Environment("sandbox", "hawk").client("s3")
    assert client.meta.endpoint_url == "http://localhost:1"
    assert client.meta.region_name == "eu-west-1"
    assert client._request_signer._credentials.access_key == "sandbox-key"


def test_the_sandbox_takes_nothing_of_the_users_aws_set_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state(folder)
    config = tmp_path / "config"
    config.write_text("[default]\ns3 =\n  addressing_style = virtual\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "nope")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-an-account")
    client = Environment("sandbox", "hawk").client("s3")
    assert client._request_signer._credentials.access_key == "sandbox-key"
    assert client._request_signer._credentials.token is None
    assert client.meta.config.s3 is None
    code, said = list_runs("--env", "prd")
    assert (code, "nope" in said) == (3, True)  # elsewhere it counts


def test_elsewhere_the_ordinary_chain_counts(folder: Path, aws: None) -> None:
    state(folder)
    client = Environment("prd", "hawk").client("s3")
    assert client.meta.endpoint_url == "https://s3.amazonaws.com"
    assert client._request_signer._credentials.access_key != "sandbox-key"


def test_a_stack_that_is_not_deployed(folder: Path, aws: None) -> None:
    code, said = list_runs("--env", "prd", "--project", "owl")
    assert code == 3
    assert "the stack prd-owl-reimport is not deployed in us-east-1" in said
    assert "check --project" in said
    assert "cdk deploy --all -c env=prd -c project=owl" in said


def test_a_project_that_the_sandbox_does_not_hold(folder: Path, aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that could be deployed would help."""
    monkeypatch.setattr(Environment, "client", lambda self, service: boto3.client(service))
    monkeypatch.setattr(Environment, "session", boto3.Session())
    code, said = list_runs("--project", "owl")
    assert code == 3
    assert "check --project" in said
    assert "reset" not in said
    assert "cdk" not in said
    assert "deploy it with `longhaul sandbox reset`" in list_runs()[1]


def test_outputs_are_read_and_a_missing_one_named(folder: Path, aws: None) -> None:
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"LogsBucketName": {"Value": "the-logs"}},
    }
    boto3.client("cloudformation").create_stack(StackName="stg-hawk-reimport", TemplateBody=json.dumps(template))
    assert Environment("stg", "hawk").output("LogsBucketName") == "the-logs"
    code, said = list_runs("--env", "stg")
    assert code == 3
    assert "has no output EvalLogReimportStateMachineArn" in said


def test_no_region(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    code, said = list_runs("--env", "prd")
    assert code == 3
    assert "AWS_REGION" in said


def test_no_credentials(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    code, said = list_runs("--env", "prd")
    assert code == 3
    assert "aws sso login" in said


@pytest.mark.parametrize(
    ("arguments", "variables", "stack"),
    [
        (["--env", "stg", "reimport", "list"], {}, "stg-hawk-reimport"),
        (["--env", "stg", "reimport", "list", "--env", "prd"], {}, "prd-hawk-reimport"),
        (["reimport", "list"], {"LONGHAUL_ENV": "dev", "LONGHAUL_PROJECT": "owl"}, "dev-owl-reimport"),
        (["--project", "elk", "reimport", "list"], {"LONGHAUL_ENV": "dev"}, "dev-elk-reimport"),
    ],
)
def test_how_an_environment_is_named(
    aws: None, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], stack: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert f"the stack {stack} is not" in CliRunner().invoke(main, arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--env", "bogus", "reimport", "list"], {}),
        (["reimport", "list", "--env", "bogus"], {}),
        (["warehouse", "check"], {"LONGHAUL_ENV": "bogus"}),
    ],
)
def test_an_unknown_environment(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stderr) == (2, "Error: no environment bogus: choose dev, stg, prd or sandbox\n")


def test_the_environments_are_those_that_can_be_deployed() -> None:
    assert set(ENVIRONMENTS) == set(settings.ENVIRONMENTS)
