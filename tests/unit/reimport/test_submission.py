"""The job of an uploaded log (R6a)."""

from __future__ import annotations

import json
import re

import pytest

from longhaul.reimport.sizing import JobSize, Tiers
from longhaul.reimport.submission import JobTarget, job_request

TARGET = JobTarget(
    queue="arn:aws:batch:us-east-1:123456789012:job-queue/dev-hawk-eval-log-importer-spot",
    definition="dev-hawk-eval-log-importer",
    name="dev-hawk-eval-log-importer",
    tiers=Tiers(
        small_max_bytes=100,
        small=JobSize(vcpu="0.5", memory_mib=1024),
        full=JobSize(vcpu="2", memory_mib=4096),
    ),
)


def detail(key: str, size: int | None = 7) -> dict[str, object]:
    return {"bucket": {"name": "logs"}, "object": {"key": key} | ({} if size is None else {"size": size})}


def test_command_and_size() -> None:
    request = job_request(detail("evals/a/b.eval"), TARGET)
    assert request["containerOverrides"] == {
        "command": [
            *("python", "-m", "longhaul.importer", "--bucket", "logs", "--key", "evals/a/b.eval", "--force", "false")
        ],
        "resourceRequirements": [{"type": "VCPU", "value": "0.5"}, {"type": "MEMORY", "value": "1024"}],
    }
    assert ":" not in request["jobDefinition"]  # no revision


@pytest.mark.parametrize("size", [101, None])
def test_a_large_log_or_one_of_unknown_size_gets_the_full_tier(size: int | None) -> None:
    requirements = job_request(detail("evals/a/b.eval", size), TARGET)["containerOverrides"]["resourceRequirements"]
    assert [r["value"] for r in requirements] == ["2", "4096"]


def test_the_key_is_not_decoded() -> None:
    """case-R02: EventBridge's keys are not URL-encoded."""
    command = job_request(detail("evals/x+y%20z.eval"), TARGET)["containerOverrides"]["command"]
    assert "evals/x+y%20z.eval" in command


@pytest.mark.parametrize("key", ["evals/a.b.c.eval", "evals/-x.eval", "evals/é.eval", "evals/" + "x" * 200 + ".eval"])
def test_job_names_are_legal_and_the_command_says_which_log(key: str) -> None:
    """case-R09: no part of a key is in the name."""
    request = job_request(detail(key), TARGET)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", request["jobName"])
    assert key in request["containerOverrides"]["command"]


@pytest.mark.parametrize("character", ["é", "\\", '"', "\x01", "語", "a"])
def test_the_longest_key_fits(character: str) -> None:
    """case-R13: overrides stay below 8,192 bytes and the job below 30 KiB with 1,024 bytes of any character."""
    key = "evals/" + character * (1018 // len(character.encode()))
    request = job_request(detail(key), TARGET)
    assert len(json.dumps(request["containerOverrides"])) < 8192
    assert len(json.dumps(request)) < 30 * 1024
