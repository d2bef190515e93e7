"""Lists: sizes, duplicates, upload (R8, R19, R20)."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, ReimportError, SizeUnreadableError
from longhaul.reimport.listing import check_name, draft, list_key, read_list, upload_list

LOGS, BUCKET = "logs-bucket", "reimport-bucket"


def answer(status: int, code: str) -> Any:
    body = f"<Error><Code>{code}</Code></Error>".encode()
    raw = type("Raw", (), {"stream": lambda self, *a, **k: iter([body]), "read": lambda self, *a: body})()
    return AWSResponse("http://s3", status, {}, raw)


def test_list_round_trip_with_sizes_duplicates_and_missing(s3: Any) -> None:
    """R19: sizes resolved, exact duplicates dropped and reported, a missing log stays without a size."""
    s3.put_object(Bucket=LOGS, Key="evals/a/é #?\\.eval", Body=b"12345")
    s3.put_object(Bucket=LOGS, Key="evals/big.eval", Body=b"x" * 11)
    keys = ["evals/a/é #?\\.eval", "evals/gone.eval", "evals/big.eval", "evals/a/é #?\\.eval"]
    with draft(small_max_bytes=10) as items:
        items.add((key, None) for key in keys)
        items.read_sizes(s3, LOGS)
        summary = items.summary()
        key = items.upload(s3, BUCKET, "first")
    assert json.load(s3.get_object(Bucket=BUCKET, Key=key)["Body"]) == [
        {"key": "evals/a/é #?\\.eval", "size": 5},
        {"key": "evals/gone.eval"},
        {"key": "evals/big.eval", "size": 11},
    ]
    assert (summary.items, summary.total_bytes, summary.small_items, summary.full_items) == (3, 16, 1, 2)
    assert summary.missing_keys == ("evals/gone.eval",)
    assert (summary.duplicates, summary.duplicate_keys) == (1, ("evals/a/é #?\\.eval",))


def test_a_size_that_cannot_be_read_stops_everything(s3: Any, hook: Any) -> None:
    """R19: 403 is not "missing"; the message says that a missing s3:ListBucket looks the same."""
    hook("before-send.s3.HeadObject", lambda request, **_: answer(403, "AccessDenied"))
    with draft(10) as items:
        items.add([("evals/a.eval", None)])
        with pytest.raises(SizeUnreadableError, match=r"403.*s3:ListBucket.*nothing was uploaded"):
            items.read_sizes(s3, LOGS)


def test_a_missing_bucket_is_no_missing_log(s3: Any) -> None:
    with draft(10) as items:
        items.add([("evals/a.eval", None)])
        with pytest.raises(s3.exceptions.ClientError):
            items.read_sizes(s3, "no-such-bucket")


def test_a_taken_name_is_refused_and_not_overwritten(s3: Any) -> None:
    upload_list(s3, BUCKET, "one", io.BytesIO(b"[1]"))
    with pytest.raises(NameTakenError, match=r"--list-key lists/one\.json"):
        upload_list(s3, BUCKET, "one", io.BytesIO(b"[2]"))
    assert s3.get_object(Bucket=BUCKET, Key="lists/one.json")["Body"].read() == b"[1]"


def test_409_is_retried_with_the_whole_body(s3: Any, hook: Any) -> None:
    answers = [answer(409, "ConditionalRequestConflict")] * 2
    hook("before-send.s3.PutObject", lambda request, **_: answers.pop() if answers else None)
    waits: list[float] = []
    upload_list(s3, BUCKET, "one", io.BytesIO(b"[1]"), sleep=waits.append)
    assert len(waits) == 2
    assert s3.get_object(Bucket=BUCKET, Key="lists/one.json")["Body"].read() == b"[1]"


def test_endless_409_is_an_error(s3: Any, hook: Any) -> None:
    hook("before-send.s3.PutObject", lambda request, **_: answer(409, "ConditionalRequestConflict"))
    with pytest.raises(ReimportError, match="409"):
        upload_list(s3, BUCKET, "one", io.BytesIO(b"[1]"), sleep=lambda seconds: None)


def test_our_own_object_after_a_lost_answer_is_no_taken_name(s3: Any, hook: Any) -> None:
    """botocore sends again after a lost answer and S3 says 412 for the object we wrote ourselves."""
    other = boto3.client("s3")

    def lose(request: Any, **_: Any) -> Any:
        token = request.headers["x-amz-meta-longhaul-upload"].decode()
        other.put_object(Bucket=BUCKET, Key="lists/one.json", Body=b"[1]", Metadata={"longhaul-upload": token})
        return answer(412, "PreconditionFailed")

    hook("before-send.s3.PutObject", lose)
    assert upload_list(s3, BUCKET, "one", io.BytesIO(b"[1]")) == "lists/one.json"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 81, "é", "a.b", "a\n"])
def test_illegal_names(name: str) -> None:
    """case-R10: refused before anything is uploaded, never shortened."""
    with pytest.raises(InvalidArgumentError):
        check_name(name)


def test_names_that_differ_at_the_end_stay_different() -> None:
    assert list_key("x" * 79 + "a") != list_key("x" * 79 + "b")


def test_a_list_that_is_no_array_is_an_error(s3: Any) -> None:
    for body in (b'{"key": "evals/a.eval"}', b"", b'[{"key": 1}', b"nonsense", b'[{"key": "\xff"}]'):
        s3.put_object(Bucket=BUCKET, Key="lists/x.json", Body=body)
        with pytest.raises(ReimportError, match="no JSON array"):
            list(read_list(s3, BUCKET, "lists/x.json"))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"])
def test_a_list_may_have_a_byte_order_mark(s3: Any, mark: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key="lists/x.json", Body=mark + b'[{"key": "evals/a.eval"}]')
    assert list(read_list(s3, BUCKET, "lists/x.json")) == [{"key": "evals/a.eval"}]


def test_an_empty_draft_writes_an_empty_array() -> None:
    with draft(10) as items:
        file = io.BytesIO()
        items.write(file)
    assert json.loads(file.getvalue()) == []


def test_many_keys_take_little_memory() -> None:
    """R19, "1,000,000 items: bounded memory": the same code path with fewer keys, memory measured."""

    class Counter(io.RawIOBase):
        size = 0

        def write(self, data: Any) -> int:
            Counter.size += len(data)
            return len(data)

    tracemalloc.start()
    try:
        with draft(10) as items:
            items.add((f"evals/{i:07}/{'x' * 80}.eval", i) for i in range(20_000))
            items.write(Counter())  # type: ignore[arg-type]
            assert items.summary().items == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert Counter.size > 2_000_000
    assert peak < 1_000_000
