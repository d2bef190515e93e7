"""The operator's page word for word: its own lines, with the ordinary AWS command line and jq (R22)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.reimport import logs
from tests.sandbox.reimport.operating import Operator, until

ROOT = Path(__file__).resolve().parents[3]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "reimport.md").read_text(), re.DOTALL)
NAME = "operator-page"


@pytest.fixture
def shell(operator: Operator, tmp_path: Path):
    """Run a block of the page in bash, with these names put in; return its stdout."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "aws").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m awscli "$@"\n')
    (binaries / "aws").chmod(0o755)
    if not shutil.which("jq"):
        (binaries / "jq").write_text(
            f"#!{sys.executable}\nimport jq, sys\n[flag, query] = sys.argv[1:]\nassert flag == '-r'\n"
            "for found in jq.compile(query).input_text(sys.stdin.read()): print(found)\n"
        )
        (binaries / "jq").chmod(0o755)
    environment = {**operator.sandbox.env, "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(block: str, expect: int = 0, **names: str) -> str:
        for name, value in names.items():
            block = block.replace(f"<{name.replace('_', '-')}>", value)
        assert "<" not in block, f"a name was not put in: {block}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == expect or (expect and done.returncode), done.stderr
        return done.stdout or done.stderr

    return run


# What operators have in their notes and fingers, word for word; only names in angle brackets are filled in.
KNOWN = r"""
aws s3api put-object --bucket <reimport-bucket> --key lists/<name>.json --body items.json --if-none-match "*"
aws stepfunctions start-execution --state-machine-arn <state-machine-arn> --name <name> --input '{"list_key": "lists/<name>.json", "max_concurrency": 8}'
aws stepfunctions list-map-runs --execution-arn <execution-arn>
aws stepfunctions describe-map-run --map-run-arn <map-run-arn>
aws stepfunctions update-map-run --map-run-arn <map-run-arn> --max-concurrency 4
aws stepfunctions stop-execution --execution-arn <execution-arn>
aws stepfunctions redrive-execution --execution-arn <execution-arn>
map_run_arn=$(aws stepfunctions list-map-runs --execution-arn <execution-arn> --query 'mapRuns[0].mapRunArn' --output text)
map_run_id=${map_run_arn##*:}
aws s3 ls s3://<reimport-bucket>/results/${map_run_id}/
aws s3 cp s3://<reimport-bucket>/results/${map_run_id}/FAILED_0.json - | jq -r '.[] | (.Input | fromjson | .key) + "\t" + .Error + "\t" + (.Cause // "" | .[:200])'
aws s3 cp s3://<reimport-bucket>/results/${map_run_id}/FAILED_0.json - | jq -r '.[].Input | fromjson | .key' > retry-keys.txt
"""  # noqa: E501


def test_the_page_has_the_commands_that_operators_know() -> None:
    assert re.sub(r" \\\n +", " ", "".join(BLOCKS[:4])).splitlines() == KNOWN.strip().splitlines()


def test_start_watch_stop_redrive(operator: Operator, shell, tmp_path: Path) -> None:
    upload, watch, stop, *_ = BLOCKS
    with operator.quiet():
        items = [operator.put(logs.clone(n), f"evals/page/{n}.eval") for n in range(6)]
    (tmp_path / "items.json").write_text(json.dumps(items))
    names = {"reimport_bucket": operator.bucket, "name": NAME, "state_machine_arn": operator.machine}
    stop_line, redrive_line = stop.strip().splitlines()

    with operator.held_warehouse():
        execution = re.search(r'"executionArn": "([^"]+)"', shell(upload, **names))[1]
        assert "PreconditionFailed" in shell(upload, expect=1, **names)
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 6)
        map_run = operator.map_run(execution)["mapRunArn"]
        shown = shell(watch, execution_arn=execution, map_run_arn=map_run)
        assert f'"mapRunArn": "{map_run}"' in shown
        assert '"itemCounts"' in shown
        assert operator.map_run(execution)["maxConcurrency"] == 4
        shell(stop_line, execution_arn=execution)
        assert operator.ended(execution)["status"] == "ABORTED"
    shell(redrive_line, execution_arn=execution)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    assert "ExecutionNotRedrivable" in shell(redrive_line, expect=1, execution_arn=execution)


def test_pull_out_the_failures(operator: Operator, shell, tmp_path: Path) -> None:
    failures = BLOCKS[3]
    missing = "evals/page/missing \u00e9+.eval"
    with operator.quiet():
        items = [operator.put(logs.clone(n), f"evals/page/{n}.eval") for n in range(2)]
    execution = operator.start([*items, {"key": missing}], tolerated_failure_percentage=50)
    assert operator.ended(execution)["status"] == "SUCCEEDED"

    listed = shell(failures, execution_arn=execution, reimport_bucket=operator.bucket)
    assert "manifest.json" in listed
    [line] = [line for line in listed.splitlines() if line.startswith("evals/")]
    key, error, cause = line.split("\t")
    assert (key, error) == (missing, "States.TaskFailed")
    assert len(cause) == 200
    assert cause.startswith('{"')
    assert (tmp_path / "retry-keys.txt").read_text() == missing + "\n"


def test_build_a_list_without_starting_it(operator: Operator, shell, tmp_path: Path) -> None:
    with operator.quiet():
        operator.put(logs.clone(1), "evals/page/listed.eval")
    function = operator.sandbox.outputs["BuildListFunctionName"]
    shell(BLOCKS[4], build_list_function=function)
    told = json.loads((tmp_path / "out.json").read_text())
    assert "errorMessage" not in told
    assert "evals/page/listed.eval" in [item["key"] for item in operator.read("lists/my-list.json")]
