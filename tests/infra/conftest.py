"""Synthesised stacks: each combination of settings once a session, in the process of the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
os.environ.pop("CDK_VALIDATION", None)  # the tests are the gate: nothing here may synthesise unchecked

import aws_cdk as cdk

from app import build, validate
from stacks.importer_stack import ImporterStack
from stacks.reimport_stack import ReimportStack
from stacks.settings import settings_for
from tests.infra.deployment import Deployment

FLAGS = json.loads((Path(__file__).parents[2] / "cdk.json").read_text())["context"]
Change = Callable[[ImporterStack, ReimportStack], None]


class Synthesis:
    """Synthesises and remembers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Deployment] = {}

    def __call__(self, env: str, **overrides: Any) -> Deployment:
        """The stacks of `env` with context values laid over its settings."""
        name = json.dumps([env, overrides], sort_keys=True)
        if name not in self._made:
            self._made[name] = self.fresh(env, **overrides)
        return self._made[name]

    def fresh(
        self,
        env: str,
        *,
        stage: str | None = None,
        checked: bool = False,
        change: Change | None = None,
        **overrides: Any,
    ) -> Deployment:
        """The same, never remembered: within a stage, after a change of the stacks, or with cdk-nag looking on."""
        number = len(list(self._folder.iterdir()))
        app = cdk.App(outdir=str(self._folder / f"{number}-{env}"), context=FLAGS)
        importer, reimport = build(cdk.Stage(app, stage) if stage else app, settings_for(env, overrides))
        if change is not None:
            change(importer, reimport)
        if checked:
            validate(app)
        app.synth()
        return Deployment(Path(app.outdir))


@pytest.fixture(scope="session")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Synthesises the stacks of an environment."""
    return Synthesis(tmp_path_factory.mktemp("synthesis"))


@pytest.fixture(scope="session", params=["dev", "stg", "prd", "sandbox"])
def env(request: pytest.FixtureRequest) -> str:
    """Each environment's name."""
    return str(request.param)


@pytest.fixture(scope="session")
def deployment(synthesis: Synthesis, env: str) -> Deployment:
    """Each environment's stacks, as they stand."""
    return synthesis(env)


@pytest.fixture(scope="session")
def dev(synthesis: Synthesis) -> Deployment:
    """The stacks of dev, for what does not differ between environments."""
    return synthesis("dev")


def load_event(name: str) -> dict[str, Any]:
    """A recorded event of tests/events."""
    return dict(json.loads((Path(__file__).parents[1] / "events" / f"{name}.json").read_text()))
