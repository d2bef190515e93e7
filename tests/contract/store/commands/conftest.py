"""A queue, and the command line of its operator."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from longhaul.cli import main
from longhaul.fleet import lease
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Outcome, Owner, Terms
from longhaul.fleet.location import Location
from longhaul.fleet.runtime import real
from longhaul.fleet.stack import Stack

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
