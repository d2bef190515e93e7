"""Which warehouse a verb works on, and that it says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

from longhaul.cli import import_, main, warehouse
from longhaul.cli.environment import Environment
from longhaul.cli.errors import EnvironmentProblemError
from longhaul.cli.warehouse import conninfo_of, place_of

LEFT_OVER = "postgresql://u:hidden@left.over:5433/old"


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every environment but the sandbox has a warehouse at `deployed`."""
    for name in ("DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    fields = {"host": "deployed", "port": 5432, "username": "u", "password": "hidden", "dbname": "warehouse"}
    secrets = SimpleNamespace(get_secret_value=lambda **_: {"SecretString": json.dumps(fields)})
    monkeypatch.setattr(Environment, "client", lambda self, service: secrets)
    monkeypatch.setattr(Environment, "output", lambda self, name: "arn")


@pytest.mark.parametrize(
    ("explicit", "variables", "option", "host"),
    [
        (False, {}, None, "deployed"),
        (False, {"DATABASE_URL": LEFT_OVER}, None, "left.over"),
        (True, {"DATABASE_URL": LEFT_OVER}, None, "deployed"),
        (True, {"PGHOST": "left.over"}, None, "deployed"),
        (True, {"PGSERVICE": "old"}, None, "deployed"),
        (True, {"DATABASE_URL": LEFT_OVER}, "postgresql://typed/x", "typed"),
    ],
)
def test_what_was_typed_wins_over_a_variable(
    deployed: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    explicit: bool,
    variables: dict[str, str],
    option: str | None,
    host: str,
) -> None:
    """A DATABASE_URL left over from `sandbox env` must not stand in for the environment that was named."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    conninfo = conninfo_of(Environment("prd", "hawk", explicit=explicit), option)
    said = capsys.readouterr().err
    assert conninfo_to_dict(conninfo)["host"] == host
    assert f"Warehouse: {host}:" in said
    assert "hidden" not in said
    assert ("left aside for --env prd" in said) == (host == "deployed" and bool(variables))


@pytest.mark.parametrize(
    ("conninfo", "variables", "place"),
    [
        (LEFT_OVER, {}, "left.over:5433/old"),
        ("host=db dbname=w password=hidden", {}, "db:5432/w"),
        ("", {"PGHOST": "db", "PGPORT": "6", "PGDATABASE": "w", "PGPASSWORD": "hidden"}, "db:6/w"),
        ("", {"PGSERVICE": "mine"}, "service mine"),
        ("postgresql//u:hidden@db/x", {}, None),
    ],
)
def test_the_place_is_named_without_the_password(
    deployed: None, monkeypatch: pytest.MonkeyPatch, conninfo: str, variables: dict[str, Any], place: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert place_of(conninfo) == place


def test_variables_alone_are_left_to_libpq(deployed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db")
    assert conninfo_of(Environment("prd", "hawk"), None) == ""


@pytest.mark.parametrize(
    ("arguments", "explicit"),
    [
        (["--env", "prd", "warehouse", "check"], True),
        (["warehouse", "check", "--env", "prd"], True),
        (["warehouse", "check"], False),
        (["import", "s3://b/evals/a.eval", "--env", "prd"], True),
    ],
)
def test_only_env_on_the_command_line_is_explicit(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], explicit: bool
) -> None:
    seen: list[Environment] = []

    def asked(environment: Environment, database_url: str | None) -> str:
        seen.append(environment)
        raise EnvironmentProblemError("far enough")

    for module in (warehouse, import_):
        monkeypatch.setattr(module, "conninfo_of", asked)
    monkeypatch.setenv("LONGHAUL_ENV", "prd")
    assert CliRunner().invoke(main, arguments).exit_code == 3
    assert [(e.name, e.explicit) for e in seen] == [("prd", explicit)]


def test_an_import_in_the_sandbox_takes_no_profile_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    env = {"AWS_ENDPOINT_URL": "http://localhost:1", "AWS_ACCESS_KEY_ID": "sandbox-key"}
    (tmp_path / "state.json").write_text(json.dumps({"pid": os.getpid(), "status": "ready", "env": env}))
    monkeypatch.setattr(os, "environ", before := dict(os.environ))
    before |= {"LONGHAUL_SANDBOX_DIR": str(tmp_path), "AWS_PROFILE": "nope", "AWS_SESSION_TOKEN": "of-an-account"}
    before.pop("AWS_ENDPOINT_URL", None)
    monkeypatch.setattr("longhaul.importer.termination.install", lambda: None)
    monkeypatch.setattr("longhaul.importer.logs.set_up", lambda **always: None)
    outcome = SimpleNamespace(line=lambda: "{}", outcome=SimpleNamespace(exit_code=0))
    monkeypatch.setattr("longhaul.importer.job.run", lambda job: outcome)
    arguments = ["import", "s3://b/evals/a.eval", "--env", "sandbox", "--database-url", "postgresql://h/x"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.stderr
    assert os.environ["AWS_ACCESS_KEY_ID"] == "sandbox-key"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & set(os.environ)
