"""The operator's verbs against the deployed re-import: start, failures, retry, stop, logs, report (R14, R17-R21)."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sandbox.reimport import logs
from tests.sandbox.reimport.operating import Operator, until

MIB = 1 << 20


def named(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def verb(operator: Operator, *arguments: str, expect: int = 0) -> str:
    """`longhaul reimport …`; its stdout, or its stderr when it is to fail."""
    done = operator.sandbox.run("reimport", *arguments)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return str(done.stderr if expect else done.stdout)


def arn(operator: Operator, name: str) -> str:
    return f"{operator.machine.replace(':stateMachine:', ':execution:')}:{name}"


def keys_file(folder: Path, *keys: str) -> str:
    path = folder / "keys.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["# logs to import again", *keys, "", ""]).encode())
    return str(path)


def failures(operator: Operator, name: str) -> dict[str, str]:
    """Class by key."""
    return {f["key"]: f["class"] for f in json.loads(verb(operator, "failures", name, "--json"))["failures"]}


def test_failed_run_its_failures_and_their_retry(operator: Operator, tmp_path: Path) -> None:
    name, again = named("failed"), named("again")
    with operator.quiet():
        good = [operator.put(logs.clone(n))["key"] for n in range(3)]
        bad = operator.put(logs.damaged(3))["key"]
    missing = f"evals/{uuid.uuid4().hex}/gone.eval"
    uri = f"s3://{operator.logs_bucket}/{good[2]}"
    file = keys_file(tmp_path, good[0], good[1], good[0], uri, bad, missing)

    planned = operator.sandbox.run("reimport", "start", "--keys-file", file, "--name", name, "--dry-run")
    assert planned.returncode == 0
    assert "duplicate" in (planned.stdout + planned.stderr).lower()
    started = operator.sfn.list_executions(stateMachineArn=operator.machine)["executions"]
    assert name not in [execution["name"] for execution in started]

    limits = ("--max-concurrency", "1", "--tolerated-failure-percentage", "20")
    verb(operator, "start", "--keys-file", file, "--name", name, *limits)
    assert operator.ended(arn(operator, name))["status"] == "FAILED"
    assert failures(operator, name) == {bad: "damaged_log", missing: "log_not_found"}
    tsv = verb(operator, "failures", name, "--tsv").splitlines()
    assert sorted(line.split("\t")[:2] for line in tsv) == sorted(
        [[bad, "States.TaskFailed"], [missing, "States.TaskFailed"]]
    )
    assert "damaged" in verb(operator, "logs", bad) or "not a" in verb(operator, "logs", bad)
    assert "already" in verb(operator, "start", "--keys-file", file, "--name", name, expect=1).lower()

    with operator.quiet():
        operator.put(logs.clone(3), bad)
        operator.put(logs.clone(4), missing)
    verb(operator, "retry", name, "--name", again)
    assert operator.ended(arn(operator, again))["status"] == "SUCCEEDED"
    keys = {json.loads(record["Input"])["key"] for record in operator.results(arn(operator, again))["SUCCEEDED"]}
    assert keys == {bad, missing}
    summary = json.loads(verb(operator, "report", name, "--json"))[0]
    assert summary["failure_classes"] == {"damaged_log": 1, "log_not_found": 1}


def test_retry_of_an_aborted_run_takes_what_never_ran(operator: Operator) -> None:
    again = named("again")
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(5)]
    with operator.held_warehouse():
        execution = operator.start(items, max_concurrency=2)
        name = execution.rsplit(":", 1)[1]
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 2)
        verb(operator, "stop", name, "--yes")
        operator.ended(execution)
        until(lambda: operator.map_run(execution)["status"] != "RUNNING")
    assert len(operator.results(execution)["PENDING"]) == 3
    verb(operator, "retry", name, "--name", again)
    assert operator.ended(arn(operator, again))["status"] == "SUCCEEDED"
    assert operator.counts(arn(operator, again))["succeeded"] == 5


def test_a_run_without_manifest_has_failures_and_a_retry(operator: Operator) -> None:
    again = named("again")
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(2)]
    missing = f"evals/{uuid.uuid4().hex}/gone.eval"
    execution = operator.start([*items, {"key": missing}])
    assert operator.ended(execution)["status"] == "FAILED"
    name, run_id = execution.rsplit(":", 1)[1], operator.map_run(execution)["mapRunArn"].rsplit(":", 1)[1]
    until(lambda: operator.s3.list_objects_v2(Bucket=operator.bucket, Prefix=f"results/{run_id}/report/")["KeyCount"])
    for found in operator.s3.list_objects_v2(Bucket=operator.bucket, Prefix=f"results/{run_id}/")["Contents"]:
        operator.s3.delete_object(Bucket=operator.bucket, Key=found["Key"])
    assert failures(operator, name)[missing] == "log_not_found"
    verb(operator, "retry", name, "--name", again, "--tolerated-failure-percentage", "50")
    assert operator.ended(arn(operator, again))["status"] == "SUCCEEDED"
    assert operator.counts(arn(operator, again))["total"] == 3, "without results nothing is known to have succeeded"


@contextmanager
def importers_that_take(operator: Operator, folder: Path, mib: int) -> Iterator[None]:
    """Within, the newest revision of the job definition makes every job hold this much memory."""
    (folder / "sitecustomize.py").write_text(f"ballast = b'x' * ({mib} << 20)\n")
    name = operator.sandbox.outputs["ImporterJobDefinitionName"]
    known = operator.batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")["jobDefinitions"]
    newest: dict[str, Any] = max(known, key=lambda found: found["revision"])
    container = {k: v for k, v in newest["containerProperties"].items() if v or k == "environment"}
    container["environment"] = [{"name": "PYTHONPATH", "value": str(folder)}, {"name": "PYTHONHASHSEED", "value": "0"}]
    registered = operator.batch.register_job_definition(
        jobDefinitionName=name,
        type="container",
        platformCapabilities=newest["platformCapabilities"],
        retryStrategy=newest["retryStrategy"],
        timeout=newest["timeout"],
        containerProperties=container,
    )
    try:
        yield
    finally:
        operator.batch.deregister_job_definition(jobDefinition=registered["jobDefinitionArn"])


def test_r14_out_of_memory_is_named_and_the_full_tier_has_enough(operator: Operator, tmp_path: Path) -> None:
    again = named("again")
    with operator.quiet():
        item = operator.put(logs.clone(1))
    with importers_that_take(operator, tmp_path, 1200):
        execution = operator.start([item])
        assert operator.ended(execution)["status"] == "FAILED"
        name = execution.rsplit(":", 1)[1]
        [job] = operator.jobs(execution)
        assert len(job["attempts"]) == 1, "another attempt would run out of memory just the same"
        assert failures(operator, name) == {item["key"]: "out_of_memory"}
        assert "--full-tier" in operator.sandbox.run("reimport", "failures", name).stderr
        verb(operator, "retry", name, "--name", again, "--full-tier")
        assert operator.ended(arn(operator, again))["status"] == "SUCCEEDED"
    [job] = operator.jobs(arn(operator, again))
    assert {"type": "MEMORY", "value": "2048"} in job["container"]["resourceRequirements"]


def test_case_r21_throttle_refuses_what_is_no_cap(operator: Operator) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(n)) for n in range(2)]
    with operator.held_warehouse():
        execution = operator.start(items, max_concurrency=1)
        name = execution.rsplit(":", 1)[1]
        until(lambda: operator.jobs(execution, "RUNNING"))
        for cap in ("0", "-1", "ten", "33", "10001"):
            verb(operator, "throttle", name, f"--max-concurrency={cap}", expect=2)
        assert operator.map_run(execution)["maxConcurrency"] == 1
        verb(operator, "throttle", name, "--max-concurrency", "2")
        until(lambda: len(operator.jobs(execution, "RUNNING")) == 2)
        watched = json.loads(verb(operator, "status", name, "--json"))
        assert watched["status"] == "RUNNING"
    assert operator.ended(execution)["status"] == "SUCCEEDED"
