"""The ItemReader: a map's items, from a JSON array in S3.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html and, for the error,
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html (States.ItemReaderFailed: the items
could not all be read). What an empty array does is not documented; as an empty array is an array, the run ends with
no items and SUCCEEDED, the outcome that spec "Bad input" foresees.
Gap of moto 5.2.5: a list that is no array ends in an error of the interpreter, a missing one in a 500.
"""

from __future__ import annotations

from typing import Any

from sandbox.step_functions import json_text
from sandbox.step_functions.errors import StateFailed
from sandbox.step_functions.places import Place
from sandbox.step_functions.result_files import objects

ERROR = "States.ItemReaderFailed"


def read(place: Place, bucket: str, key: str) -> list[Any]:
    """The items of the list at `key`; StateFailed with States.ItemReaderFailed when there is no such list."""
    found = objects(place, bucket, ERROR).get_object(bucket, key)
    if found is None:
        raise StateFailed(ERROR, f"Unable to read s3://{bucket}/{key}: The specified key does not exist. (NoSuchKey)")
    try:
        items = json_text.parse(found.value)
    except ValueError as error:
        raise StateFailed(ERROR, f"s3://{bucket}/{key} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise StateFailed(ERROR, f"s3://{bucket}/{key} holds no JSON array, it is of type {type(items).__name__}")
    return items
