"""Handlers loaded as Lambda does it: the file alone, its environment set, recorded events."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.reimport.fixtures import aws, hook, s3, sfn

__all__ = ["aws", "hook", "s3", "sfn"]
ROOT = Path(__file__).parents[3]
TIERS = {
    "SMALL_MAX_BYTES": "10485760",
    "SMALL_VCPU": "0.5",
    "SMALL_MEMORY_MIB": "1024",
    "FULL_VCPU": "2",
    "FULL_MEMORY_MIB": "4096",
}


class Context:
    """What Lambda hands over beside the event."""

    function_name = "f"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:f"
    aws_request_id = "r"

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def load(aws: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    def load(name: str, **environment: str) -> ModuleType:
        for variable, value in {"POWERTOOLS_SERVICE_NAME": name, **environment}.items():
            monkeypatch.setenv(variable, value)
        spec = importlib.util.spec_from_file_location(f"handler_{name}", ROOT / "lambdas" / name / "handler.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def recorded() -> Callable[[str], Any]:
    return lambda name: json.loads((ROOT / "tests" / "events" / f"{name}.json").read_text())
