"""JSONata in state machines: `{% … %}` strings within any JSON value, evaluated against `$states` and variables.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html: an expression that yields nothing,
or a value of the wrong type, fails the state with States.QueryEvaluationError; `$partition`, `$range`, `$hash`,
`$random`, `$uuid` and `$parse` are there besides JSONata's own functions, `$eval` is not.
Gaps of moto 5.2.5: strings are pasted into the expression without escaping, so a key with a quote or a backslash
breaks it (parser/asl/jsonata/jsonata.py); each evaluation parses anew, at four times the cost of evaluating; `$`
is refused even inside a predicate. Here values are bound, never pasted, and an expression is parsed once.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from jsonata import Jsonata
from jsonata.utils import Utils

from sandbox.step_functions.errors import StateFailed

Scope = Mapping[str, Any]
"""Names without `$`: `states`, and the variables."""

_UNDEFINED = object()


def is_expression(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{%") and value.endswith("%}")


def expressions(template: Any) -> Iterator[str]:
    """Every JSONata text in a JSON value."""
    if isinstance(template, dict):
        for value in template.values():
            yield from expressions(value)
    elif isinstance(template, list):
        for value in template:
            yield from expressions(value)
    elif is_expression(template):
        yield template[2:-2].strip()


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Jsonata:
    """The parsed expression, shared by all threads: evaluation keeps its state in the frame that it is given."""
    expression = Jsonata(text)
    expression.set_output_convert_nulls(False)  # else null and undefined are one
    expression.validate_input = False
    return expression


def evaluate(template: Any, scope: Scope, field: str) -> Any:
    """Replace every expression in `template` by its value.

    `field` names the state's field in the cause of a States.QueryEvaluationError.
    """
    if isinstance(template, dict):
        return {key: evaluate(value, scope, f"{field}/{key}") for key, value in template.items()}
    if isinstance(template, list):
        return [evaluate(value, scope, f"{field}[{index}]") for index, value in enumerate(template)]
    if not is_expression(template):
        return template
    text = template[2:-2].strip()
    value = _value(text, scope, field)
    if value is _UNDEFINED:
        raise _failed(
            f"The JSONata expression '{text}' specified for the field '{field}' returned nothing (undefined)."
        )
    return value


def evaluate_as(kind: type | tuple[type, ...], template: Any, scope: Scope, field: str) -> Any:
    """Evaluate, and insist on the type that the field must have; a boolean is no number."""
    value = evaluate(template, scope, field)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _failed(
            f"The JSONata expression '{template}' specified for the field '{field}' returned an unexpected result type."
        )
    return value


def _value(text: str, scope: Scope, field: str) -> Any:
    try:
        expression = parsed(text)
        # `$now()` and `$millis()` read the time from the thread's own instance
        expression.get_per_thread_instance().timestamp = int(time.time() * 1000)
        return _plain(expression.evaluate(None, {**_FUNCTIONS, **scope}), text, field)
    except StateFailed:
        raise
    except Exception as error:  # the library raises whatever its Python code raises
        said = f"The JSONata expression '{text}' specified for the field '{field}' threw an error during evaluation."
        raise _failed(f"{said} {error}") from error


def _plain(value: Any, text: str, field: str) -> Any:
    """The library's values as JSON, copied, so that no two states share a mutable value."""
    if value is None:
        return _UNDEFINED
    if value is Utils.NULL_VALUE:
        return None
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: _member(item, text, field) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_member(item, text, field) for item in value]
    raise _failed(f"The JSONata expression '{text}' specified for the field '{field}' returned a function.")


def _member(value: Any, text: str, field: str) -> Any:
    """Within an object or array of the input, Python's None is JSON's null."""
    return None if value is None else _plain(value, text, field)


def _failed(cause: str) -> StateFailed:
    return StateFailed("States.QueryEvaluationError", cause)


def _partition(array: list, size: int) -> list:
    return [array[start : start + int(size)] for start in range(0, len(array), int(size))]


def _range(first: int, last: int, step: int) -> list:
    return list(range(int(first), int(last) + (1 if step > 0 else -1), int(step)))


def _hash(content: Any, algorithm: str) -> str:
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
    return hashlib.new(algorithm.replace("-", "").lower(), text.encode()).hexdigest()


def _random(seed: int | None = None) -> float:
    return random.random() if seed is None else random.Random(seed).random()  # noqa: S311 (no secret)


def _string(value: Any, prettify: Any = None) -> Any:
    """`$string` as the reference implementation: 8.0 is 8, and letters are not escaped, unlike in the library."""
    if value is None or isinstance(value, str):
        return value
    plain = _plain(value, "$string", "$string")
    if prettify is True:
        return json.dumps(plain, ensure_ascii=False, indent=2)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _no_eval(*_: Any) -> Any:
    raise ValueError("$eval is not supported by Step Functions; use $parse")


_FUNCTIONS = {
    "partition": Jsonata.JLambda(_partition),
    "range": Jsonata.JLambda(_range),
    "hash": Jsonata.JLambda(_hash),
    "random": Jsonata.JLambda(_random),
    "uuid": Jsonata.JLambda(lambda: str(uuid.uuid4())),
    "parse": Jsonata.JLambda(json.loads),
    "string": Jsonata.JLambda(_string),
    "eval": Jsonata.JLambda(_no_eval),
}
