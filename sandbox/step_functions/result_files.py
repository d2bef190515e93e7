"""The ResultWriter: result files and manifest of a Map Run, below `<prefix>/<map run id>/`.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html: SUCCEEDED_n.json,
FAILED_n.json (failed, timed out and aborted), PENDING_n.json (never started); files of up to 5 GB, then the next
index; records with the fields below, in alphabetical order, `Input` and `Output` as JSON strings; the manifest names
successes of all attempts, failures and pending of the present one only. A status without records has an empty list
in the manifest and no file (seen in manifests that people published; the page is silent).
Not documented, assumed: numbering goes on after a redrive (FAILED_1.json beside an old FAILED_0.json), so the prefix
can hold stale files and only the manifest says what is current (R17). Children that still waited for their redrive
when it was stopped are in PENDING. Failures that can no longer be redriven are in no file of a redrive.
Gap of moto 5.2.5: it writes nothing, and its grammar refuses a JSONata ResultWriter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from moto.core.exceptions import ServiceException
from moto.s3.models import s3_backends

from sandbox.step_functions import clock
from sandbox.step_functions.errors import StateFailed
from sandbox.step_functions.executions import Execution
from sandbox.step_functions.map_runs import MapRun
from sandbox.step_functions.places import Place

LARGEST_FILE_BYTES = 5 * 1024**3
"""Of one result file; a test lowers it to get several files of one status."""


class ResultWriter:
    """Writes the results of one Map Run, over all its attempts."""

    def __init__(self, map_run: MapRun, bucket: str, prefix: str | None) -> None:
        self._run = map_run
        self._bucket = bucket
        self._folder = "/".join(part for part in ((prefix or "").strip("/"), str(map_run.id)) if part)

    def check(self) -> None:
        """Fail before any child starts when the bucket is not there."""
        objects(self._run.place, self._bucket, "States.ResultWriterFailed")

    def write(self) -> dict[str, Any]:
        """Write the files and the manifest; returns the map's output."""
        run = self._run
        done = [child for index, child in run.children.items() if index in run.attempted]
        good = [child for child in done if child.status == "SUCCEEDED"]
        files = {
            "FAILED": self._files("FAILED", (record(child) for child in done if child.status != "SUCCEEDED")),
            "PENDING": self._files("PENDING", self._pending()),
            "SUCCEEDED": [*run.succeeded_files, *self._files("SUCCEEDED", map(record, good))],
        }
        run.succeeded_files = files["SUCCEEDED"]
        manifest = {"DestinationBucket": self._bucket, "MapRunArn": run.arn, "ResultFiles": files}
        key = f"{self._folder}/manifest.json"
        self._put(key, json.dumps(manifest, ensure_ascii=False).encode())
        run.results_written = sum(child.stop_date is not None for child in run.children.values())
        return {"MapRunArn": run.arn, "ResultWriterDetails": {"Bucket": self._bucket, "Key": key}}

    def _pending(self) -> Iterator[dict[str, Any]]:
        run = self._run
        for index in run.unstarted():
            child = run.children.get(index)
            yield (
                record(child)
                if child is not None
                else {
                    "ExecutionArn": run.child_arn(index),
                    "Input": run.input_of(index),
                    "InputDetails": {"Included": True},
                    "Name": run.child_name(index),
                    "RedriveCount": 0,
                    "StateMachineArn": run.child_machine_arn,
                    "Status": "PENDING",
                }
            )

    def _files(self, status: str, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write one status' records, in as many files as their size asks for."""
        named = []
        for body in _bodies(records):
            key = f"{self._folder}/{status}_{self._run.next_file[status]}.json"
            self._run.next_file[status] += 1
            self._put(key, body)
            named.append({"Key": key, "Size": len(body)})
        return named

    def _put(self, key: str, body: bytes) -> None:
        objects(self._run.place, self._bucket, "States.ResultWriterFailed").put_object(self._bucket, key, body)


def record(child: Execution) -> dict[str, Any]:
    """A started child in a result file."""
    status, reason = child.redrivability()
    found = {
        "Cause": child.cause,
        "Error": child.error,
        "ExecutionArn": child.arn,
        "Input": child.input,
        "InputDetails": {"Included": True},
        "Name": child.name,
        "Output": child.output,
        "OutputDetails": None if child.output is None else {"Included": True},
        "RedriveCount": child.redrive_count,
        "RedriveStatus": status,
        "RedriveStatusReason": reason,
        "StartDate": clock.iso(child.start_date),
        "StateMachineArn": child.state_machine_arn,
        "Status": child.status,
        "StopDate": None if child.stop_date is None else clock.iso(child.stop_date),
    }
    return {key: value for key, value in found.items() if value is not None}


def _bodies(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 2
    for found in records:
        part = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        if parts and size + len(part) + 1 > LARGEST_FILE_BYTES:
            yield b"[" + b",".join(parts) + b"]"
            parts, size = [], 2
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield b"[" + b",".join(parts) + b"]"


def objects(place: Place, bucket: str, error: str) -> Any:
    """The S3 backend that holds the bucket; the state fails with `error` when there is none."""
    backend = s3_backends[place.account][place.partition]
    try:
        backend.get_bucket(bucket)
    except ServiceException as problem:
        raise StateFailed(error, f"The bucket {bucket} cannot be used: {problem.message}") from problem
    return backend
