"""Result files of a Map Run made by hand, as AWS lays them out (R17)."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.reimport.causes import cause
from tests.unit.reimport.fake_step_functions import MACHINE

BUCKET = "reimport-bucket"
MISSING = object()


def child(number: int | str) -> str:
    return f"{MACHINE.replace(':stateMachine:', ':execution:')}/Reimport:child-{number}"


def entry(number: int | str, status: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
    """Return an entry; a field given as MISSING is left out."""
    made: dict[str, Any] = {
        "ExecutionArn": child(number),
        "Input": json.dumps({"key": f"evals/set/{number}.eval", "size": 100, "tier": "small"}),
        "InputDetails": {"Included": True},
        "Name": f"child-{number}",
        "RedriveCount": 0,
        "StartDate": "2026-06-01T12:00:00.000Z",
        "StateMachineArn": f"{MACHINE}/Reimport",
        "Status": status,
        "StopDate": "2026-06-01T12:01:30.500Z",
    }
    if status == "SUCCEEDED":
        made |= {"Output": json.dumps({"JobId": f"job-{number}", "StoppedAt": 1}), "OutputDetails": {"Included": True}}
    elif status == "FAILED":
        made |= {"Error": "States.TaskFailed", "Cause": cause(11)}
    made |= more
    return {name: value for name, value in made.items() if value is not MISSING}


def put_results(s3: Any, id_: str, files: dict[str, Any], named: tuple[str, ...] | None = None) -> None:
    """Write result files (`FAILED_0`: entries, or bytes) and a manifest that names them, or only those `named`."""
    listed: dict[str, list[dict[str, Any]]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    for name, content in files.items():
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        s3.put_object(Bucket=BUCKET, Key=f"results/{id_}/{name}.json", Body=body)
    for name in files if named is None else named:
        listed[name.rsplit("_", 1)[0]].append({"Key": f"results/{id_}/{name}.json", "Size": 1})
    manifest = {"DestinationBucket": BUCKET, "MapRunArn": f"arn:aws:states:...:{id_}", "ResultFiles": listed}
    s3.put_object(Bucket=BUCKET, Key=f"results/{id_}/manifest.json", Body=json.dumps(manifest).encode())
