"""The ResultWriter's files and manifest (R17, case-R07, case-R14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox.step_functions import result_files

from .conftest import BUCKET, MACHINE, Jobs, Machine, keys

ODD_KEYS = [
    "evals/quote \"double\" and 'single'.eval",
    "evals/back\\slash\\u0041.eval",
    "evals/plus+percent%2B and space.eval",
    "evals/é ü 漢字.eval",
    "evals/🙂.eval",
    "evals/#hash?query,comma.eval",
    "evals/../dots/./x.eval",
    "evals/{% $states.input %}.eval",
    "evals/$${}`.eval",
    "evals/new\nline\ttab.eval",
]


def test_manifest_and_records_have_aws_layout(machine: Machine, jobs: Jobs) -> None:
    """The fields of the ResultWriter page, in its spelling and order."""
    jobs.outcome = lambda key: "FAILED" if key.endswith("001.eval") else "SUCCEEDED"
    arn = machine.start(keys(2), tolerated=50)
    output = json.loads(machine.ended(arn)["output"])
    run = machine.map_run(arn)
    folder = f"results/{run['mapRunArn'].rsplit(':', 1)[-1]}"
    assert output == {
        "MapRunArn": run["mapRunArn"],
        "ResultWriterDetails": {"Bucket": BUCKET, "Key": f"{folder}/manifest.json"},
    }
    manifest = machine.manifest(arn)
    assert (manifest["DestinationBucket"], manifest["MapRunArn"]) == (BUCKET, run["mapRunArn"])
    assert manifest["ResultFiles"]["PENDING"] == []
    for status in ("SUCCEEDED", "FAILED"):
        (named,) = manifest["ResultFiles"][status]
        assert named["Key"] == f"{folder}/{status}_0.json"
        assert named["Size"] == machine.s3.head_object(Bucket=BUCKET, Key=named["Key"])["ContentLength"]
    (good,), (bad,) = (machine.results(arn)[status] for status in ("SUCCEEDED", "FAILED"))
    common = ["ExecutionArn", "Input", "InputDetails", "Name"]
    rest = ["StartDate", "StateMachineArn", "Status", "StopDate"]
    redrive = ["RedriveCount", "RedriveStatus"]
    assert list(good) == [*common, "Output", "OutputDetails", *redrive, "RedriveStatusReason", *rest]
    assert list(bad) == ["Cause", "Error", *common, *redrive, *rest]
    assert good["InputDetails"] == good["OutputDetails"] == {"Included": True}
    assert json.loads(good["Output"])["JobId"].startswith("job-")
    assert good["StateMachineArn"].endswith(f":stateMachine:{MACHINE}/Reimport")
    assert good["StartDate"].endswith("Z")
    assert len(good["StartDate"]) == len("2025-02-04T01:49:50.099Z")


def test_a_failed_job_is_described_in_pascal_case(machine: Machine, jobs: Jobs) -> None:
    """R17: the Cause is the Batch job's description; tags are no fields, and unknown fields are left out."""
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    (failed,) = machine.results(arn)["FAILED"]
    assert failed["Error"] == "States.TaskFailed"
    cause = json.loads(failed["Cause"])
    assert list(cause) == sorted(cause)
    assert list(cause["Attempts"][0]) == ["Container", "StatusReason"]
    assert cause["Container"]["ExitCode"] == 11
    assert cause["Attempts"][0]["Container"]["ExitCode"] == 11
    assert cause["Tags"] == {"longhaul:child": failed["ExecutionArn"]}
    assert "NotInTheApi" not in cause["Container"]
    assert ": " not in failed["Cause"].replace("Essential container", ""), "AWS writes compact JSON"


def test_a_cause_is_cut_at_32768_characters(machine: Machine, jobs: Jobs) -> None:
    """R17, case-R14: it need not be JSON any more."""
    jobs.outcome, jobs.reason = lambda key: "FAILED", "x" * 40_000
    arn = machine.start(keys(1))
    machine.ended(arn)
    (failed,) = machine.results(arn)["FAILED"]
    assert len(failed["Cause"]) == 32_768
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(failed["Cause"])
    child = machine.children(arn)[0]["executionArn"]
    assert len(machine.describe(child)["cause"]) == 32_768


def test_several_files_of_one_status(machine: Machine, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS splits at 5 GB; every record is in exactly one file."""
    monkeypatch.setattr(result_files, "LARGEST_FILE_BYTES", 2_000)
    jobs.outcome = lambda key: "FAILED" if int(key[-8:-5]) % 2 else "SUCCEEDED"
    arn = machine.start(keys(20), tolerated=100)
    machine.ended(arn)
    files = machine.manifest(arn)["ResultFiles"]
    for status in ("SUCCEEDED", "FAILED"):
        names = [one["Key"].rsplit("/", 1)[-1] for one in files[status]]
        assert len(names) > 1
        assert names == [f"{status}_{number}.json" for number in range(len(names))]
        assert all(one["Size"] <= 2_000 for one in files[status])
        assert len({r["ExecutionArn"] for r in machine.results(arn)[status]}) == 10


def test_a_run_without_failures_has_an_empty_list_and_no_file(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start(keys(1))
    machine.ended(arn)
    assert machine.manifest(arn)["ResultFiles"]["FAILED"] == []
    assert sorted(machine.result_keys(arn)) == ["SUCCEEDED_0.json", "manifest.json"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_are_carried_unchanged(machine: Machine, jobs: Jobs, key: str) -> None:
    """ "Bad input", case-R02: moto pastes strings into expressions unescaped, and decodes nothing reliably."""
    arn = machine.start([{"key": key, "size": 5}])
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert jobs.keys() == [key]
    (record,) = machine.results(arn)["SUCCEEDED"]
    assert json.loads(record["Input"])["key"] == key


def test_a_key_of_1024_bytes(machine: Machine, jobs: Jobs) -> None:
    key = "evals/" + "é" * 506 + ".eval!"
    assert len(key.encode()) == 1024
    machine.run([{"key": key}])
    assert jobs.keys() == [key]


def test_a_redrive_keeps_successes_of_all_attempts(machine: Machine, jobs: Jobs) -> None:
    """ResultWriter page: successes of all attempts, failures of the present one only."""
    bad: set[str] = {item["key"] for item in keys(3)[1:]}
    jobs.outcome = lambda key: "FAILED" if key in bad else "SUCCEEDED"
    arn = machine.start(keys(3), tolerated=50)
    machine.ended(arn)
    bad.discard(keys(3)[1]["key"])
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    found: dict[str, list[dict[str, Any]]] = machine.results(arn)
    assert [json.loads(r["Input"])["key"][-8:] for r in found["SUCCEEDED"]] == ["000.eval", "001.eval"]
    assert [(json.loads(r["Input"])["key"][-8:], r["RedriveCount"]) for r in found["FAILED"]] == [("002.eval", 1)]
    assert [one["Key"].rsplit("/", 1)[-1] for one in machine.manifest(arn)["ResultFiles"]["FAILED"]] == [
        "FAILED_1.json"
    ]
