"""S3's conditional writes, denials and events, seen through its API (R2, R6a, R19, case-R02, case-Q06)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.conftest import Bare, until


@pytest.fixture(scope="module")
def s3(bare: Bare) -> Any:
    return bare.client("s3")


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"b-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    return name


def outcome(call: Callable[..., Any], **arguments: Any) -> tuple[int, str]:
    """Status and error code of a call."""
    try:
        return call(**arguments)["ResponseMetadata"]["HTTPStatusCode"], ""
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


@pytest.mark.parametrize(
    "key", ["a/line\nbreak\r\n.eval", "a/\x1b[31m\t.eval", "a//b", "a/../b", "a/%2B+ é#?&=\\\"'", "a/b/"]
)
def test_keys_are_literal(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    [found] = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert found["Key"] == key


def test_a_conditional_put_takes_a_free_name_once(s3: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "a", "Body": b"1"}
    assert outcome(s3.put_object, **put, IfNoneMatch="*") == (200, "")
    assert outcome(s3.put_object, **put, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert outcome(s3.put_object, **put, IfNoneMatch='"etag"') == (501, "NotImplemented")


def test_case_q07_an_etag_matches_with_and_without_quotes(s3: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "a", "Body": b"1"}
    etag = s3.put_object(**put)["ETag"]
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]["ETag"]
    for one in (etag, etag.strip('"'), s3.head_object(Bucket=bucket, Key="a")["ETag"], listed):
        assert outcome(s3.put_object, **put, IfMatch=one) == (200, "")
    assert outcome(s3.put_object, **put, IfMatch='"other"') == (412, "PreconditionFailed")
    assert outcome(s3.put_object, Bucket=bucket, Key="none", IfMatch=etag) == (404, "NoSuchKey")


def test_case_q06_of_fifty_writers_one_wins(s3: Any, bucket: str) -> None:
    """moto looks and writes in two steps: with luck two win (s3/responses.py put_object)."""
    with ThreadPoolExecutor(50) as pool:
        for number in range(3):
            tries = [
                {"Bucket": bucket, "Key": str(number), "Body": str(i).encode(), "IfNoneMatch": "*"} for i in range(50)
            ]
            codes = list(pool.map(lambda one: outcome(s3.put_object, **one)[0], tries))
            assert (codes.count(200), codes.count(412)) == (1, 49)


def test_case_q06_no_writer_comes_between_the_look_and_the_write_of_another() -> None:
    """The race above is rare; here each writer is slow."""
    from moto.s3.exceptions import PreconditionFailed

    from sandbox import s3 as module

    stored: dict[str, str] = {}

    class Request:
        headers = {"If-None-Match": "*"}  # noqa: RUF012
        bucket_name = "b"
        backend = type("Backend", (), {"get_object": staticmethod(lambda bucket, key: stored.get(key))})

        def parse_key_name(self) -> str:
            return "key"

    def slow_put(request: Request) -> str:
        time.sleep(0.05)
        stored["key"] = "object"
        return "written"

    def attempt(_: int) -> str:
        try:
            return str(module._locked(slow_put)(Request()))
        except PreconditionFailed:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == ["refused", "refused", "refused", "written"]


def test_copies_obey_conditions_on_their_target(s3: Any, bucket: str) -> None:
    """moto ignores them."""
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["ETag"]
    copy = {"Bucket": bucket, "Key": "b", "CopySource": {"Bucket": bucket, "Key": "a"}}
    assert outcome(s3.copy_object, **copy, IfNoneMatch="*") == (200, "")
    assert outcome(s3.copy_object, **copy, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert outcome(s3.copy_object, **copy, IfMatch='"other"') == (412, "PreconditionFailed")
    assert outcome(s3.copy_object, **copy, IfMatch=etag) == (200, "")


def test_completing_an_upload_obeys_conditions(s3: Any, bucket: str) -> None:
    """moto ignores If-Match there."""

    def complete(**conditions: str) -> tuple[int, str]:
        upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        return outcome(
            s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=parts, **conditions
        )

    assert complete(IfMatch='"other"') == (404, "NoSuchKey")
    assert complete(IfNoneMatch="*") == (200, "")
    assert complete(IfNoneMatch="*") == (412, "PreconditionFailed")
    assert complete(IfMatch='"other"') == (412, "PreconditionFailed")
    assert complete(IfMatch=s3.head_object(Bucket=bucket, Key="m")["ETag"]) == (200, "")


def test_r2_a_policy_refuses_unconditional_writes_below_lists(s3: Any, bucket: str) -> None:
    """moto ignores a bucket policy's conditions: it would refuse all writes there."""
    statement = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/lists/*",
        "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    at = {"Bucket": bucket, "Key": "lists/a.json"}
    assert outcome(s3.put_object, **at) == (403, "AccessDenied")
    assert outcome(s3.put_object, **at, IfNoneMatch="*") == (200, "")
    assert outcome(s3.put_object, **at, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert outcome(s3.put_object, Bucket=bucket, Key="results/a.json") == (200, "")
    assert outcome(s3.copy_object, **at, CopySource={"Bucket": bucket, "Key": "results/a.json"}) == (
        403,
        "AccessDenied",
    )
    assert outcome(s3.get_object, **at) == (200, "")
    assert outcome(s3.put_object_tagging, **at, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}) == (200, "")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="lists/m")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="lists/m", UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
    done = {"Bucket": bucket, "Key": "lists/m", "UploadId": upload}
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    assert outcome(s3.complete_multipart_upload, **done, MultipartUpload=parts) == (403, "AccessDenied")
    assert outcome(s3.complete_multipart_upload, **done, MultipartUpload=parts, IfNoneMatch="*") == (200, "")


def test_a_policy_that_cannot_be_enforced_is_refused(s3: Any, bucket: str) -> None:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringLike": {"aws:Referer": "x"}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    assert outcome(s3.put_bucket_policy, Bucket=bucket, Policy=document)[1] == "MalformedPolicy"


# ---- events ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def events_of(bare: Bare, s3: Any, bucket: str) -> Callable[[], list[dict[str, Any]]]:
    """What EventBridge gets from a bucket, through a rule that sends it to a queue."""
    sqs, events = bare.client("sqs"), bare.client("events")
    url = sqs.create_queue(QueueName=bucket)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(
        Name=bucket, EventPattern=json.dumps({"source": ["aws.s3"], "detail": {"bucket": {"name": [bucket]}}})
    )
    events.put_targets(Rule=bucket, Targets=[{"Id": "queue", "Arn": arn}])
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}})

    def read() -> list[dict[str, Any]]:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
        return [json.loads(message["Body"]) for message in messages]

    return read


def test_the_notification_configuration_shows_eventbridge(s3: Any, bucket: str) -> None:
    """moto leaves it out, though it sends the events."""
    assert "EventBridgeConfiguration" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}})
    assert s3.get_bucket_notification_configuration(Bucket=bucket)["EventBridgeConfiguration"] == {}


def test_case_r02_an_upload_is_one_event_with_the_literal_key(
    s3: Any, bucket: str, events_of: Callable[[], list[dict[str, Any]]]
) -> None:
    """moto says eTag, reason ObjectCreated, a fixed id, and fails in its template parser for an SQS target."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    key = "evals/x+y%20z é#?\\\"'.eval"
    etag = s3.put_object(Bucket=bucket, Key=key, Body=b"12345")["ETag"]
    [event] = until(events_of)
    assert (event["source"], event["detail-type"]) == ("aws.s3", "Object Created")
    assert event["resources"] == [f"arn:aws:s3:::{bucket}"]
    detail = event["detail"]
    assert set(detail) == {"version", "bucket", "object", "request-id", "requester", "source-ip-address", "reason"}
    assert (detail["object"]["key"], detail["object"]["size"]) == (key, 5)
    assert detail["object"]["etag"] == etag.strip('"')
    assert detail["object"]["version-id"] == s3.head_object(Bucket=bucket, Key=key)["VersionId"]
    assert int(detail["object"]["sequencer"], 16)
    assert detail["reason"] == "PutObject"


def test_reasons_of_copies_and_uploads_in_parts_each_one_event(
    s3: Any, bucket: str, events_of: Callable[[], list[dict[str, Any]]]
) -> None:
    """moto sends two events for a completed upload."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=parts)
    s3.copy_object(Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "m"})
    s3.delete_object(Bucket=bucket, Key="c")
    seen: list[dict[str, Any]] = []
    until(lambda: len(seen.extend(events_of()) or seen) >= 3)
    seen.extend(events_of())
    reasons = [(one["detail-type"], one["detail"]["object"]["key"], one["detail"]["reason"]) for one in seen]
    assert sorted(reasons) == [
        ("Object Created", "c", "CopyObject"),
        ("Object Created", "m", "CompleteMultipartUpload"),
        ("Object Deleted", "c", "DeleteObject"),
    ]
    sequence = {
        one["detail-type"] + one["detail"]["object"]["key"]: one["detail"]["object"]["sequencer"] for one in seen
    }
    assert sequence["Object Createdc"] < sequence["Object Deletedc"]


def test_a_bucket_without_the_configuration_sends_nothing(
    s3: Any, bucket: str, events_of: Callable[[], list[dict[str, Any]]]
) -> None:
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    s3.put_object(Bucket=bucket, Key="a", Body=b"")
    assert events_of() == []
