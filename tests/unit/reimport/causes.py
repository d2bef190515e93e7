"""Causes of failed children as Step Functions writes them: PascalCase, cut at 32,768 characters (R17)."""

from __future__ import annotations

import json
from typing import Any

CUT = 32_768


def cause(
    exit_code: int | None = 11,
    *,
    reason: str | None = None,
    status_reason: str = "Essential container in task exited",
    attempts: int = 1,
    padding: int = 0,
) -> str:
    """Return the Cause of a failed job; `padding` characters of environment make it long."""
    container: dict[str, Any] = {
        **({} if exit_code is None else {"ExitCode": exit_code}),
        **({} if reason is None else {"Reason": reason}),
        "LogStreamName": "importer/default/0123",
    }
    job = {
        "Attempts": [{"Container": container, "StatusReason": status_reason} for _ in range(attempts)],
        "Container": {
            "Command": ["python", "-m", "longhaul.importer"],
            "Environment": [{"Name": "PADDING", "Value": "x" * padding}],
            **container,
        },
        "JobId": "job-1",
        "JobName": "dev-hawk-eval-log-reimport",
        "Status": "FAILED",
        "StatusReason": status_reason,
    }
    return json.dumps(job, separators=(",", ":"))[:CUT]
