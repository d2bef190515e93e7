"""Batch's decisions against its API reference (R14, case-R09, case-R13, case-C09)."""

from typing import Any

import pytest

from sandbox import batch_rules

R14 = {
    "attempts": 3,
    "evaluateOnExit": [
        {"onStatusReason": "Your Spot Task was interrupted*", "action": "EXIT"},
        {"onReason": "OutOfMemoryError*", "action": "EXIT"},
        {"onExitCode": "1*", "action": "EXIT"},
        {"onExitCode": "2", "action": "EXIT"},
    ],
}
EXITED = "Essential container in task exited"


@pytest.mark.parametrize(
    ("status_reason", "reason", "exit_code", "again"),
    [
        ("Your Spot Task was interrupted.", "", 20, False),
        (EXITED, batch_rules.OUT_OF_MEMORY, 137, False),
        *[(EXITED, "", code, False) for code in (1, 10, 11, 12, 137, 143, 2)],
        *[(EXITED, "", code, True) for code in (20, 21, 22, 3)],
        ("Task failed to start", "CannotPullContainerError: pull", None, True),
        ("Host EC2 (instance i-0a) terminated.", "", None, True),
    ],
)
def test_r14_first_matching_entry_decides_and_none_means_retry(
    status_reason: str, reason: str, exit_code: int | None, again: bool
) -> None:
    assert batch_rules.retries(R14, status_reason=status_reason, reason=reason, exit_code=exit_code) is again


def test_all_conditions_of_an_entry_must_match_and_actions_ignore_case() -> None:
    strategy = {"evaluateOnExit": [{"onReason": "Out*", "onExitCode": "137", "action": "exit"}]}
    assert batch_rules.retries(strategy, status_reason="", reason="OutOfMemoryError", exit_code=1)
    assert not batch_rules.retries(strategy, status_reason="", reason="OutOfMemoryError", exit_code=137)


def test_a_star_stands_for_the_rest_only_and_letters_keep_their_case() -> None:
    assert batch_rules.matches("Your Spot*", "Your Spot Task was interrupted.")
    assert not batch_rules.matches("your spot*", "Your Spot Task")
    assert not batch_rules.matches("Your Spot", "Your Spot Task")
    assert not batch_rules.matches("1", "137")


@pytest.mark.parametrize(
    "rule",
    [
        {"onStatusReason": "*interrupted", "action": "EXIT"},
        {"onReason": "a*b*", "action": "EXIT"},
        {"onReason": "Error(1)", "action": "EXIT"},
        {"onExitCode": "1x", "action": "EXIT"},
        {"onExitCode": "1", "action": "STOP"},
    ],
)
def test_r14_patterns_that_batch_refuses(rule: dict[str, str]) -> None:
    assert batch_rules.fault_of_strategy({"attempts": 1, "evaluateOnExit": [rule]})


@pytest.mark.parametrize("strategy", [{"attempts": 11}, {"evaluateOnExit": [{"action": "EXIT"}] * 6}])
def test_limits_of_a_retry_strategy(strategy: dict[str, Any]) -> None:
    assert batch_rules.fault_of_strategy(strategy)


def test_our_own_strategy_is_accepted() -> None:
    assert batch_rules.fault_of_strategy(R14) is None


@pytest.mark.parametrize("name", ["log.eval", "-leading", "é", "a" * 129, "", "a b", "a/b"])
def test_case_r09_job_names_that_batch_refuses(name: str) -> None:
    assert "Job name" in (batch_rules.fault_of_submission(name, None, None) or "")


@pytest.mark.parametrize("name", ["a", "0", "A_b-9", "a" * 128])
def test_case_r09_job_names_that_batch_takes(name: str) -> None:
    assert batch_rules.fault_of_submission(name, None, None) is None


def test_case_r13_overrides_are_limited_in_bytes() -> None:
    def command(length: int) -> dict[str, list[str]]:
        return {"command": ["é" * length]}

    assert batch_rules.fault_of_submission("a", command(4000), None) is None
    assert "8192" in (batch_rules.fault_of_submission("a", command(4100), None) or "")


def test_half_a_surrogate_pair_in_a_command_is_no_fault() -> None:
    assert batch_rules.fault_of_submission("job", {"command": ["evals/\ud800.eval"]}, None) is None


def test_a_job_has_at_most_fifty_tags() -> None:
    assert batch_rules.fault_of_submission("a", None, {str(i): "" for i in range(51)})


@pytest.mark.parametrize(("vcpu", "mib"), [("0.5", "1024"), ("2", "4096"), ("0.25", "512"), ("16", "122880")])
def test_sizes_of_fargate(vcpu: str, mib: str) -> None:
    assert batch_rules.fault_of_fargate_size(vcpu, mib) is None


@pytest.mark.parametrize(("vcpu", "mib"), [("4", "1024"), ("0.5", "8192"), ("3", "6144"), ("1", "2049")])
def test_case_c09_sizes_that_fargate_does_not_have(vcpu: str, mib: str) -> None:
    assert batch_rules.fault_of_fargate_size(vcpu, mib)


def test_overrides_replace_requirements_and_variables_by_name() -> None:
    definition = {
        "resourceRequirements": [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "4096"}],
        "environment": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    }
    overrides = {
        "resourceRequirements": [{"type": "MEMORY", "value": "1024"}],
        "environment": [{"name": "B", "value": "3"}],
    }
    assert batch_rules.merged_requirements(definition, overrides) == [
        {"type": "VCPU", "value": "2"},
        {"type": "MEMORY", "value": "1024"},
    ]
    assert batch_rules.merged_environment(definition, overrides) == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "3"},
    ]


def test_parameters_replace_placeholders_and_unknown_ones_stay() -> None:
    assert batch_rules.substituted(["--key=Ref::key", "Ref::none"], {"key": "a"}) == ["--key=a", "Ref::none"]
