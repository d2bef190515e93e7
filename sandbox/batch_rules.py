"""AWS Batch's decisions as pure functions: which submissions it refuses, which attempts it repeats, which sizes exist.

Sources: API_SubmitJob, API_EvaluateOnExit, API_ResourceRequirement of the AWS Batch API reference; "Automated job
retries" and "Job timeouts" of its user guide. moto 5.2.5 knows none of it but the job name, and refuses there a name
of one letter.
"""

from __future__ import annotations

import json
import re
from typing import Any

ESSENTIAL_EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
OVERRIDES_LIMIT_BYTES = 8192
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_PATTERN = re.compile(r"[A-Za-z0-9.:\s]*\*?")
_EXIT_PATTERN = re.compile(r"[0-9]*\*?")
_GIB = 1024
# MiB of memory that each vCPU size of Fargate allows
_FARGATE_MIB: dict[float, tuple[int, ...]] = {
    0.25: (512, 1024, 2048),
    0.5: tuple(range(1 * _GIB, 4 * _GIB + 1, _GIB)),
    1: tuple(range(2 * _GIB, 8 * _GIB + 1, _GIB)),
    2: tuple(range(4 * _GIB, 16 * _GIB + 1, _GIB)),
    4: tuple(range(8 * _GIB, 30 * _GIB + 1, _GIB)),
    8: tuple(range(16 * _GIB, 60 * _GIB + 1, 4 * _GIB)),
    16: tuple(range(32 * _GIB, 120 * _GIB + 1, 8 * _GIB)),
}


def retries(strategy: dict[str, Any], *, status_reason: str, reason: str, exit_code: int | None) -> bool:
    """Whether a failed attempt is repeated: the first entry all of whose patterns match decides; with none it is."""
    seen = {
        "onStatusReason": status_reason,
        "onReason": reason,
        "onExitCode": "" if exit_code is None else str(exit_code),
    }
    for rule in strategy.get("evaluateOnExit") or []:
        if all(matches(rule[key], value) for key, value in seen.items() if rule.get(key)):
            return str(rule["action"]).upper() == "RETRY"
    return True


def matches(pattern: str, value: str) -> bool:
    """Batch's glob: a star stands at the end or nowhere, and without it the whole string must be equal."""
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern


def attempts(strategy: dict[str, Any]) -> int:
    """How often a job may be started; 1 when nothing is said."""
    return int(strategy.get("attempts") or 1)


def fault_of_strategy(strategy: dict[str, Any]) -> str | None:
    """Why Batch refuses a retry strategy, or None."""
    rules = strategy.get("evaluateOnExit") or []
    if not 1 <= attempts(strategy) <= 10:
        return "retryStrategy.attempts should be between 1 and 10"
    if len(rules) > 5:
        return "retryStrategy.evaluateOnExit can have at most 5 items"
    for rule in rules:
        if str(rule.get("action", "")).upper() not in ("RETRY", "EXIT"):
            return f"evaluateOnExit action should be RETRY or EXIT, not {rule.get('action')!r}"
        for key, allowed in (("onStatusReason", _PATTERN), ("onReason", _PATTERN), ("onExitCode", _EXIT_PATTERN)):
            if not allowed.fullmatch(rule.get(key) or ""):
                return f"evaluateOnExit {key} {rule[key]!r} has characters that are not allowed; a star may only end it"
    return None


def fault_of_submission(name: str, overrides: dict[str, Any] | None, tags: dict[str, str] | None) -> str | None:
    """Why Batch refuses to take a job, or None (cases R09 and R13)."""
    if not _JOB_NAME.fullmatch(name or ""):
        return (
            f"Job name {name!r} should match valid pattern: up to 128 letters, numbers, hyphens and underscores, "
            "the first of them a letter or a number"
        )
    length = len(json.dumps(overrides, ensure_ascii=False).encode("utf-8", "surrogatepass")) if overrides else 0
    if length > OVERRIDES_LIMIT_BYTES:
        return f"Container Overrides length must be at most {OVERRIDES_LIMIT_BYTES}"
    if tags and len(tags) > 50:
        return "A job can have at most 50 tags"
    return None


def fault_of_fargate_size(vcpu: str, memory_mib: str) -> str | None:
    """Why Fargate has no such size, or None."""
    allowed = _FARGATE_MIB.get(float(vcpu))
    if allowed is None or int(memory_mib) not in allowed:
        return f"Fargate resource requirements ({float(vcpu):.2f} vCPU, {memory_mib} MiB) not valid."
    return None


def merged_requirements(definition: dict[str, Any], overrides: dict[str, Any]) -> list[dict[str, str]]:
    """The definition's resource requirements with the submission's in their place."""
    both = [*definition.get("resourceRequirements", []), *overrides.get("resourceRequirements", [])]
    return list({item["type"]: {"type": item["type"], "value": str(item["value"])} for item in both}.values())


def merged_environment(definition: dict[str, Any], overrides: dict[str, Any]) -> list[dict[str, str]]:
    """The definition's variables with the submission's in their place."""
    both = [*definition.get("environment", []), *overrides.get("environment", [])]
    return [{"name": name, "value": value} for name, value in {e["name"]: e["value"] for e in both}.items()]


def substituted(command: list[str], parameters: dict[str, str]) -> list[str]:
    """`Ref::name` in a command replaced by the parameter's value."""
    return [re.sub(r"Ref::([A-Za-z0-9_-]+)", lambda m: parameters.get(m[1], m[0]), part) for part in command]
