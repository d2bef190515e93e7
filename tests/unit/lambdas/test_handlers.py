"""The handlers on recorded events."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

import pytest
from botocore.stub import Stubber

from longhaul.reimport.errors import InvalidArgumentError, RefusedError
from tests.unit.lambdas.conftest import ROOT, TIERS, Context
from tests.unit.reimport.fake_step_functions import MACHINE, FakeStepFunctions, execution_arn
from tests.unit.reimport.fixtures import BUCKET, LOGS
from tests.unit.reimport.result_files import entry, put_results

Load = Callable[..., ModuleType]
NAMES = ("build_list", "extract_results", "submit_import")


def test_submit_import_takes_the_key_as_it_stands(load: Load, recorded: Any, context: Context) -> None:
    """R6a, case-R02: keys of EventBridge's events are not URL-encoded; the log says nothing of the key's eval set."""
    handler = load("submit_import", JOB_QUEUE="spot", JOB_DEFINITION="importer", JOB_NAME="importer", **TIERS)
    with Stubber(handler.batch) as stub:
        event = recorded("s3-object-created")
        event["detail"]["object"]["key"] = "evals/x+y%20z.eval"
        command = ["--bucket", "example-logs", "--key", "evals/x+y%20z.eval", "--force", "false"]
        expected = {
            "jobName": "importer",
            "jobQueue": "spot",
            "jobDefinition": "importer",
            "containerOverrides": {
                "command": ["python", "-m", "longhaul.importer", *command],
                "resourceRequirements": [{"type": "VCPU", "value": "0.5"}, {"type": "MEMORY", "value": "1024"}],
            },
        }
        stub.add_response("submit_job", {"jobName": "importer", "jobId": "job-1"}, expected)
        out = io.StringIO()
        with redirect_stdout(out):
            assert handler.handler(event, context) == {"jobId": "job-1"}
        stub.assert_no_pending_responses()
    assert "evals/" not in out.getvalue()


def test_build_list(load: Load, s3: Any, context: Context) -> None:
    handler = load("build_list", LOGS_BUCKET=LOGS, REIMPORT_BUCKET=BUCKET, SMALL_MAX_BYTES="10")
    s3.put_object(Bucket=LOGS, Key="evals/a.eval", Body=b"1")
    answer = handler.handler({"name": "n", "selector": {}}, context)
    assert (answer["list_key"], answer["items"], answer["tiers"]) == ("lists/n.json", 1, {"small": 1, "full": 0})
    json.dumps(answer)
    with pytest.raises(InvalidArgumentError):
        handler.handler({"name": "n/n"}, context)


@pytest.fixture
def extract(load: Load, s3: Any, sfn: FakeStepFunctions) -> ModuleType:
    handler = load("extract_results", REIMPORT_BUCKET=BUCKET, STATE_MACHINE_ARN=MACHINE, **TIERS)
    handler.extractor.runs._client = sfn
    return handler


def ended(recorded: Any) -> dict[str, Any]:
    """Return the recorded end of an execution, as if it were `june`'s."""
    event: dict[str, Any] = recorded("execution-succeeded")
    event["detail"]["executionArn"] = execution_arn("june")
    return event


def a_run(s3: Any, sfn: FakeStepFunctions) -> None:
    sfn.add_map_run(sfn.add("june", "FAILED"), "m", "FAILED", counts={"succeeded": 1})
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)]})


def test_extract_results_of_an_event(
    extract: ModuleType, s3: Any, sfn: FakeStepFunctions, recorded: Any, context: Context
) -> None:
    a_run(s3, sfn)
    event = ended(recorded)
    assert extract.handler(event, context) == {"reports": ["results/m/report/"]}
    assert extract.handler(event, context) == {"reports": ["results/m/report/"]}  # delivered twice


def test_extract_results_leaves_a_running_run_to_a_later_event(
    extract: ModuleType, sfn: FakeStepFunctions, recorded: Any, context: Context
) -> None:
    sfn.add("june", "RUNNING")
    assert extract.handler(ended(recorded), context) == {"reports": []}


def test_extract_results_waits_as_long_as_the_function_may(
    extract: ModuleType, recorded: Any, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def refuse(self: Any, run_arn: str, wait_seconds: float) -> None:
        waits.append(wait_seconds)
        raise RefusedError

    monkeypatch.setattr(type(extract.extractor), "extract", refuse)
    extract.handler(ended(recorded), context)
    assert waits == [780.0]


def test_extract_results_sweeps_on_schedule(
    extract: ModuleType, recorded: Any, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(extract.extractor), "sweep", lambda self: ["arn"])
    assert extract.handler(recorded("schedule"), context) == {"runs": ["arn"]}


@pytest.mark.parametrize("name", NAMES)
def test_handlers_are_thin(name: str) -> None:
    """A handler parses, calls one function, logs, returns."""
    assert len((ROOT / "lambdas" / name / "handler.py").read_text().splitlines()) < 40


def test_what_lambdas_import_is_in_their_package_or_layer() -> None:
    """longhaul.reimport needs the standard library, boto3, Powertools and ijson only, and no other longhaul package."""
    allowed = {"boto3", "botocore", "ijson", "aws_lambda_powertools", "__future__"} | sys.stdlib_module_names
    files = [*(ROOT / "longhaul" / "reimport").glob("*.py"), *(ROOT / "lambdas" / n / "handler.py" for n in NAMES)]
    for file in files:
        tree = ast.parse(file.read_text())
        typing_only = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
        for node in ast.walk(tree):
            if id(node) in typing_only:
                continue
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                assert name.startswith("longhaul.reimport") or name.partition(".")[0] in allowed, (file, name)
