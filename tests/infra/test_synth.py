"""`cdk synth` as an operator runs it, and what it must refuse: nag, cfn-lint, case-C12, case-C09."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import aws_iam as iam

from stacks.importer_stack import ImporterStack
from stacks.reimport_stack import ReimportStack
from stacks.settings import ENVIRONMENTS
from tests.infra.conftest import Change, Synthesis
from tests.infra.deployment import Deployment

ROOT = Path(__file__).parents[2]
JSII_CACHE = os.environ.get(  # what this session's own jsii has unpacked already
    "JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path.home() / ".cache" / "aws" / "jsii" / "package-cache")
)


def cdk_synth(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the CDK command line on the clone with nothing of this machine: empty HOME, no AWS variables, no Docker."""
    programs = folder / "bin"
    programs.mkdir()
    for program in ("node", "sh", "env"):
        found = shutil.which(program)
        assert found, program
        (programs / program).symlink_to(found)
    (folder / "home").mkdir()
    environment = {
        "PATH": str(programs),
        "HOME": str(folder / "home"),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": JSII_CACHE,
    }
    command = ["node", str(ROOT / "node_modules/aws-cdk/bin/cdk"), "synth", "--quiet", "-o", str(folder / "out")]
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_synth_needs_no_credentials_and_no_docker(env: str, tmp_path: Path, deployment: Deployment) -> None:
    unchecked = {} if env == "dev" else {"CDK_VALIDATION": "false"}  # the others are checked in process, below
    done = cdk_synth(tmp_path, "-c", f"env={env}", **unchecked)
    assert done.returncode == 0, done.stderr
    assert "AwsSolutions" not in done.stdout + done.stderr
    assert bare(Deployment(tmp_path / "out")) == bare(deployment)
    assert not list(ROOT.glob("cdk.context.json"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "env is None: choose one of dev, stg, prd, sandbox with -c env=<env>"),
        (["-c", "env=dev", "-c", "full_vcpu=4", "-c", "full_memory_mib=1024"], "allowed memory in MiB is 8192, 9216"),
        (["-c", "env=dev", "-c", "smallMaxBytes=0"], "smallMaxBytes is not a setting"),
    ],
)
def test_c09_synth_refuses_wrong_settings_in_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = cdk_synth(tmp_path, *arguments)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("longhaul: ")]
    assert complaint in line
    assert "Traceback" not in done.stderr


def test_nag_looks_at_every_environment(synthesis: Synthesis, env: str) -> None:
    assert findings(synthesis.fresh(env, checked=True)) == []


def _everything_to_the_machine(_: ImporterStack, reimport: ReimportStack) -> None:
    grant(reimport.machine.role, "s3:*", "*")


def _all_jobs_to_the_machine(_: ImporterStack, reimport: ReimportStack) -> None:
    grant(reimport.machine.role, "batch:TerminateJob", "arn:aws:batch:eu-west-1:*:job/*")


def _all_objects_to_the_importer(importer: ImporterStack, _: ReimportStack) -> None:
    grant(importer.job.definition.container.job_role, "s3:GetObject", f"{importer.logs_bucket.bucket_arn}/*")


def _all_objects_to_a_function(_: ImporterStack, reimport: ReimportStack) -> None:
    grant(reimport.build_list.role, "s3:PutObject", reimport.bucket.arn_for_objects("*"))


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (_everything_to_the_machine, "Action::s3:*"),
        (_all_jobs_to_the_machine, "Resource::arn:aws:batch:eu-west-1:*:job/*"),
        (_all_objects_to_the_importer, ".Arn>/*"),
        (_all_objects_to_a_function, ".Arn>/*"),
    ],
)
def test_c12_a_wildcard_that_is_added_later_fails(synthesis: Synthesis, change: Change, finding: str) -> None:
    with pytest.raises(RuntimeError) as refused:
        synthesis.fresh("sandbox", checked=True, change=change)
    assert re.search(rf"AwsSolutions-IAM5\[[^\]]*{re.escape(finding)}\]", str(refused.value))


def test_no_template_holds_an_account_or_a_region(deployment: Deployment) -> None:
    for template in deployment.templates.values():
        text = json.dumps({key: value for key, value in template.items() if key not in ("Parameters", "Rules")})
        assert not re.search(r"(?<![0-9A-Fa-f])\d{12}(?![0-9A-Fa-f])", text)
        assert not re.search(r"\b(us|eu|ap|ca|sa)-[a-z]+-\d\b", text)
        assert "arn:aws:" not in text


def test_cfn_lint_finds_nothing(synthesis: Synthesis) -> None:
    templates = [path for env in ENVIRONMENTS for path in synthesis(env).folder.glob("*.template.json")]
    assert len(templates) == 8
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("cfn-lint")),
            "--config-file",
            str(ROOT / ".cfnlintrc.yaml"),
            *map(str, templates),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def grant(role: iam.IRole | None, action: str, resource: str) -> None:
    """Add one statement to a role."""
    assert role is not None
    role.add_to_principal_policy(iam.PolicyStatement(actions=[action], resources=[resource]))


def bare(deployment: Deployment) -> dict[str, object]:
    """The templates without the paths that the command line has the CDK write into them."""
    templates = json.loads(json.dumps(deployment.templates))
    for template in templates.values():
        for resource in template["Resources"].values():
            resource.pop("Metadata", None)
    return dict(templates)


def findings(deployment: Deployment) -> list[str]:
    """What the validation plugins reported."""
    report = json.loads((deployment.folder / "validation-report.json").read_text())
    return [json.dumps(found) for plugin in report["pluginReports"] for found in plugin["violations"]]
