"""Failures of a Map Run that has no result files, asked of Step Functions child by child (R21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.reimport.results import Results, read_entry

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient
    from mypy_boto3_stepfunctions.literals import ExecutionStatusType

_UNSUCCESSFUL: tuple[ExecutionStatusType, ...] = ("FAILED", "TIMED_OUT", "ABORTED")


def read_children(client: SFNClient, map_run_arn: str, found: Results) -> None:
    """Add every unsuccessful child of the Map Run; botocore retries what AWS throttles."""
    paginator = client.get_paginator("list_executions")
    for status in _UNSUCCESSFUL:
        for page in paginator.paginate(mapRunArn=map_run_arn, statusFilter=status):
            for child in page["executions"]:
                arn = child["executionArn"]
                found.add(read_entry({"ExecutionArn": arn, "Status": status, **_details(client, arn)}, "FAILED", arn))


def _details(client: SFNClient, arn: str) -> dict[str, Any]:
    """Return what a result file would say of a child; nothing if it is forgotten already."""
    try:
        child = client.describe_execution(executionArn=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise
        return {}
    stopped = child.get("stopDate")
    return {
        "Input": child.get("input"),
        "Error": child.get("error"),
        "Cause": child.get("cause"),
        "RedriveCount": child.get("redriveCount", 0),
        "StartDate": child["startDate"].isoformat(),
        "StopDate": stopped.isoformat() if stopped else None,
    }
