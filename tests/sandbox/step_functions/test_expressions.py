"""JSONata as Step Functions evaluates it (R11: undefined is an error)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from sandbox.step_functions.errors import StateFailed
from sandbox.step_functions.expressions import evaluate, evaluate_as

SCOPE = {
    "cap": 8,
    "states": {
        "input": {"key": 'a"b\\c é🙂 %2B', "nothing": None, "list": [1], "empty": [], "n": 3},
        "context": {"Map": {"Item": {"Value": {"key": "k"}}}},
    },
}


def value(text: str) -> Any:
    return evaluate(f"{{% {text} %}}", SCOPE, "Output")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$states.input.key", 'a"b\\c é🙂 %2B'),
        ("$states.input.key & '!'", 'a"b\\c é🙂 %2B!'),
        ("$states.input.nothing", None),
        ("$type($states.input.nothing)", "null"),
        ("$exists($states.input.none)", False),
        ("$exists($states.input.nothing)", True),
        ("$states.input.list", [1]),
        ("$states.input.empty", []),
        ("$cap + 1", 9),
        ("3 / 2", 1.5),
        ("4 / 2", 2),
        ("{'a': $states.input.nothing, 'b': [null]}", {"a": None, "b": [None]}),
        ("$states.context.Map.Item.Value.key", "k"),
        ("[1..3][$ > 1]", [2, 3]),
        ("$partition([1..3], 2)", [[1, 2], [3]]),
        ("$range(0, 4, 2)", [0, 2, 4]),
        ("$parse('{\"a\": 1}')", {"a": 1}),
        ("$hash('x', 'SHA-256')", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        ("$length($uuid())", 36),
        ("$random() < 1", True),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert value(text) == expected
    assert type(value(text)) is type(expected)


@pytest.mark.parametrize("text", ["$states.input.none", "$none", "key", "$", "$$", "$states.input.list[7]"])
def test_nothing_is_an_error(text: str) -> None:
    """transforming-data page: an expression must return a value; the input is no context value either."""
    with pytest.raises(StateFailed) as failed:
        value(text)
    assert failed.value.error == "States.QueryEvaluationError"
    assert f"'{text}' specified for the field 'Output' returned nothing (undefined)" in str(failed.value.cause)


@pytest.mark.parametrize(
    "text", ["$number('x')", "$states.input.key > 1", "$error('no')", "$eval('1')", "function($x){$x}"]
)
def test_what_fails_names_expression_and_field(text: str) -> None:
    with pytest.raises(StateFailed) as failed:
        value(text)
    assert failed.value.error == "States.QueryEvaluationError"
    assert f"'{text}' specified for the field 'Output'" in str(failed.value.cause)


def test_only_whole_strings_are_expressions() -> None:
    plain = {"a": "x {% 1 %}", "b": [" {% 1 %}", "{% 1"], "c": 5, "d": None}
    assert evaluate(plain, {}, "Output") == plain
    assert evaluate({"a": ["{% 1 %}"]}, {}, "Output") == {"a": [1]}


@pytest.mark.parametrize(("kind", "text"), [(bool, "1"), (int, "true"), (int, "1.5"), (str, "1"), (list, "1")])
def test_a_field_insists_on_its_type(kind: type, text: str) -> None:
    with pytest.raises(StateFailed, match="unexpected result type"):
        evaluate_as(kind, f"{{% {text} %}}", {}, "MaxConcurrency")


def test_values_are_copies() -> None:
    copied = value("$states.input.list")
    copied.append(2)
    assert SCOPE["states"]["input"]["list"] == [1]  # type: ignore[index]


def test_threads_do_not_see_each_others_values() -> None:
    """One parsed expression serves all children."""
    wrong: list[Any] = []

    def work(number: int) -> None:
        for _ in range(200):
            got = evaluate("{% $filter([0..20], function($x) { $x = $n })[0] %}", {"n": number}, "Output")
            if got != number:
                wrong.append((number, got))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_time_goes_on_between_evaluations() -> None:
    """Also in a thread that did not parse the expression, as a child's."""
    seen: list[int] = []

    def work() -> None:
        seen.append(value("$millis()"))
        time.sleep(0.01)
        seen.append(value("$millis()"))

    value("$millis()")
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[1] > seen[0]
