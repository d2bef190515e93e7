"""Failures without result files (R21)."""

from __future__ import annotations

from longhaul.reimport.children import read_children
from longhaul.reimport.results import results
from tests.unit.reimport.causes import cause
from tests.unit.reimport.fake_step_functions import START, FakeStepFunctions
from tests.unit.reimport.result_files import child


def test_every_unsuccessful_child_is_asked(sfn: FakeStepFunctions) -> None:
    """case-R06: pages of a hundred; successes are not failures; a forgotten child is no crash."""
    arn = sfn.add_map_run(sfn.add("one", "FAILED"), "m", "FAILED")
    sfn.children[arn] = [
        {
            "executionArn": child(i),
            "status": "SUCCEEDED" if i < 50 else "ABORTED" if i < 60 else "FAILED",
            "input": f'{{"key": "evals/{i}.eval"}}',
            "error": "States.TaskFailed",
            "cause": cause(11),
            "startDate": START,
        }
        for i in range(350)
    ]
    forgotten = {"executionArn": child("x"), "status": "FAILED"}
    listed, sfn.children[arn] = sfn.children[arn], [*sfn.children[arn], forgotten]
    real = sfn.describe_execution

    def describe(executionArn: str) -> object:  # noqa: N803
        sfn.children[arn] = listed
        return real(executionArn)

    sfn.describe_execution = describe  # type: ignore[method-assign,assignment]
    with results() as found:
        read_children(sfn, arn, found)  # type: ignore[arg-type]
        assert {o.value: n for o, n in found.counts().items() if n} == {"failed": 291, "aborted": 10}
        assert sum(1 for item in found.failed() if item.key is None) == 1
