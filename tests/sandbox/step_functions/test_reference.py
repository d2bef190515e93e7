"""The deployed definition means in the sandbox what it means to JSONata's reference implementation, which AWS runs.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html. The reference implementation comes
with the linter of definitions (node_modules).
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.step_functions.errors import StateFailed
from sandbox.step_functions.expressions import evaluate, expressions

ROOT = Path(__file__).parents[3]
PROGRAM = """
const jsonata = require("jsonata");
async function main(cases) {
  const answers = [];
  for (const [text, scope] of cases) {
    try {
      const value = await jsonata(text).evaluate(undefined, scope);
      answers.push(value === undefined ? "failed" : [value]);
    } catch (error) {
      answers.push("failed");
    }
  }
  process.stdout.write(JSON.stringify(answers));
}
main(JSON.parse(require("fs").readFileSync(0, "utf-8")));
"""
VALUES = [
    *(None, True, False, 0, 1, 8.0, 1.5, 32, 33, -1, 10**9, 0.5, 100, 100.5),
    *("", "8", "lists/", "lists/a.json", "evals/\u00e9\"\\'.eval", [], [7], ["evals/a.eval"], {}, {"a": 1}),
]
FIELDS = ["list_key", "max_concurrency", "tolerated_failure_percentage", "adaptive", "Comment", "other", "key", "size"]


def objects() -> Iterator[dict[str, Any]]:
    yield {"list_key": "lists/a.json", "max_concurrency": 4, "tolerated_failure_percentage": 1, "adaptive": True}
    for name, value in itertools.product(FIELDS, VALUES):
        yield {"list_key": "lists/a.json", name: value}
        yield {"key": "evals/a.eval", "size": 10, "tier": "small", "index": 3, "execution": "arn", name: value}


def scopes() -> Iterator[dict[str, Any]]:
    """Every value as an execution's input, as a list's item and as a child's input."""
    for value in [*VALUES, *objects()]:
        context = {"Map": {"Item": {"Value": value, "Index": 3}}, "Execution": {"Id": "arn"}}
        result = {"JobId": "job", "StoppedAt": 1749723646000}
        yield {"states": {"input": value, "context": context, "result": result}, "problem": "said"}


def ours(text: str, scope: dict[str, Any]) -> Any:
    try:
        return [evaluate(f"{{% {text} %}}", scope, "field")]
    except StateFailed:
        return "failed"


def test_every_expression_of_the_definition_is_what_the_reference_implementation_makes_of_it() -> None:
    definition = (ROOT / "state_machines" / "reimport.asl.json").read_text("utf-8").replace("${SmallMaxBytes}", "5")
    texts = sorted(set(expressions(json.loads(definition))))
    assert len(texts) > 20
    cases = list(itertools.product(texts, scopes()))
    done = subprocess.run(
        ["node", "-e", PROGRAM],
        input=json.dumps(cases),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    theirs = json.loads(done.stdout)
    differ = [(case, our, their) for case, their in zip(cases, theirs, strict=True) if (our := ours(*case)) != their]
    assert not differ, f"{len(differ)} of {len(cases)}: {differ[:5]}"
    assert 0 < sum(their == "failed" for their in theirs) < len(theirs)
