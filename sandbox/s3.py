"""S3: conditional writes that are atomic, Deny statements that deny, EventBridge events with AWS's field names.

Sources: "Conditional writes", "Enforce conditional writes" and "EventBridge event message structure" of the S3 user
guide; API_PutObject, API_CopyObject, API_CompleteMultipartUpload, API_GetBucketNotificationConfiguration. Gaps of
moto 5.2.5: PutObject looks and writes in two steps, so two writers can both win (`s3/responses.py` put_object);
CopyObject ignores If-None-Match and If-Match, CompleteMultipartUpload If-Match; a completed upload sends two events,
and so does every PutObject (its tags); events carry `eTag`, a fixed id, sequencer and request id, the reason
"ObjectCreated", and are lost when a rule has an SQS target (`s3/notifications.py`, `events/utils.py`);
GetBucketNotificationConfiguration does not show EventBridge; a key with a line break is a 404 (`s3/urls.py`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.iam.access_control import PermissionResult
from moto.s3 import models, notifications, responses
from moto.s3.exceptions import MissingKey, PreconditionFailed, S3AccessDeniedError, S3ClientError

from sandbox import events, s3_policy, surroundings

REASONS = {
    "Put": "PutObject",
    "Post": "POST Object",
    "Copy": "CopyObject",
    "CompleteMultipartUpload": "CompleteMultipartUpload",
    "Delete": "DeleteObject",
    "DeleteMarkerCreated": "DeleteObject",
}
_write_lock = threading.RLock()
_thread = threading.local()
_sequence = itertools.count(int(time.time() * 1000) << 20)


class NotImplementedHeaderError(Exception):
    """S3 knows If-None-Match on writes with a star only."""


NOT_IMPLEMENTED = (
    501,
    {"content-type": "application/xml"},
    (
        '<?xml version="1.0" encoding="UTF-8"?><Error><Code>NotImplemented</Code>'
        "<Message>A header you provided implies functionality that is not implemented</Message></Error>"
    ),
)


def install() -> None:
    """Mend moto's S3."""
    response = responses.S3Response
    response.put_object = _locked(response.put_object)
    response.copy_object = _locked(response.copy_object)
    response._key_response_post = _locked_completion(response._key_response_post)
    response.delete_object = _under_lock(response.delete_object)
    response.get_bucket_notification = _get_bucket_notification
    response._authenticate_and_authorize_s3_action = _authorize(response._authenticate_and_authorize_s3_action)
    models.S3Backend.put_bucket_policy = _put_bucket_policy(models.S3Backend.put_bucket_policy)
    models.FakeBucket.get_permission = lambda self, action, resource: PermissionResult.NEUTRAL
    notifications._send_event_bridge_message = _send_event
    models.S3Backend.url_paths = property(_url_paths)


def _url_paths(self: Any) -> dict[str, Any]:
    """Routes that take every key: the dot of a regular expression is no line break."""
    known = super(models.S3Backend, self).url_paths
    return {path.replace("<key_name>.+", r"<key_name>[\s\S]+"): action for path, action in known.items()}


# ---- conditional writes ----------------------------------------------------------------------------------------------
def _check_conditions(self: Any, key_name: str) -> None:
    """If-None-Match and If-Match of a write, against the object as it is now."""
    none_match, match = self.headers.get("If-None-Match"), self.headers.get("If-Match")
    if none_match is None and match is None:
        return
    if none_match is not None and none_match != "*":
        raise NotImplementedHeaderError
    existing = self.backend.get_object(self.bucket_name, key_name)
    if none_match and existing is not None:
        raise PreconditionFailed("If-None-Match")
    if match:
        if existing is None:
            raise MissingKey(key=key_name)
        if match.strip('"') != existing.etag.strip('"'):
            raise PreconditionFailed("If-Match")


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Within it an object is written: tagging it is part of that, not an event of its own."""
    _thread.writing = True
    try:
        yield
    finally:
        _thread.writing = False


def _under_lock(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _write_lock:
            return original(self, *args, **kwargs)

    return locked


def _locked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def write(self: Any) -> Any:
        with _write_lock, _writing():
            try:
                _check_conditions(self, self.parse_key_name())
            except NotImplementedHeaderError:
                return NOT_IMPLEMENTED
            return original(self)

    return write


def _locked_completion(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def post(self: Any, request: Any, body: bytes, bucket_name: str, query: dict[str, Any], key_name: str) -> Any:
        if not query.get("uploadId"):
            return original(self, request, body, bucket_name, query, key_name)
        with _write_lock, _writing():
            existing = self.backend.get_object(bucket_name, key_name)
            done = existing is not None and existing.multipart and existing.multipart.id == query["uploadId"][0]
            if not done:  # completing the same upload again is answered as before
                try:
                    _check_conditions(self, key_name)
                except NotImplementedHeaderError:
                    return NOT_IMPLEMENTED
            return original(self, request, body, bucket_name, query, key_name)

    return post


# ---- bucket policies -------------------------------------------------------------------------------------------------
def _authorize(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def authorize(self: Any, bucket_name: str | None = None, key_name: str | None = None) -> Any:
        policy = _policy_of(self, bucket_name) if bucket_name else None
        if policy:
            resource = f"arn:aws:s3:::{bucket_name}" + (f"/{key_name}" if key_name else "")
            request = s3_policy.secure_request(f"s3:{self.data['Action']}", resource, _condition_keys(self))
            if s3_policy.denies(policy, request):
                raise S3AccessDeniedError
        return original(self, bucket_name=bucket_name, key_name=key_name)

    return authorize


def _policy_of(self: Any, bucket_name: str) -> str | None:
    bucket = self.backend.buckets.get(bucket_name)
    return bucket.policy.decode() if bucket is not None and bucket.policy else None


def _condition_keys(self: Any) -> dict[str, str]:
    keys = {}
    for header, key in (("If-None-Match", "s3:if-none-match"), ("If-Match", "s3:if-match")):
        if self.headers.get(header) is not None:
            keys[key] = self.headers[header]
    if self.data["Action"] == "PutObject":  # that is also the permission for all steps of a multipart upload
        part = "partNumber" in self.querystring or "uploads" in self.querystring
        keys["s3:ObjectCreationOperation"] = "false" if part else "true"
    return keys


def _put_bucket_policy(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def put(self: Any, bucket_name: str, policy: bytes) -> Any:
        try:
            s3_policy.check(policy.decode())
        except s3_policy.UnsupportedPolicyError as error:
            raise S3ClientError("MalformedPolicy", str(error)) from error
        return original(self, bucket_name, policy)

    return put


# ---- notifications ---------------------------------------------------------------------------------------------------
def _get_bucket_notification(self: Any) -> Any:
    found = self.backend.get_bucket_notification_configuration(self.bucket_name)
    self.data["Action"] = "GetBucketNotificationConfiguration"
    if not found:
        return self.serialized(EmptyResult())
    kinds = (
        ("TopicConfigurations", "TopicArn", found.topic),
        ("QueueConfigurations", "QueueArn", found.queue),
        ("LambdaFunctionConfigurations", "LambdaFunctionArn", found.cloud_function),
    )
    result: dict[str, Any] = {
        name: [
            {
                "Id": one.id,
                arn: one.arn,
                "Events": one.events,
                **({"Filter": {"Key": {"FilterRules": one.filters["S3Key"]["FilterRule"]}}} if one.filters else {}),
            }
            for one in items
        ]
        for name, arn, items in kinds
    }
    if found.event_bridge is not None:
        result["EventBridgeConfiguration"] = {}
    return self.serialized(ActionResult(result))


def _send_event(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
    del account_id
    _, group, kind = str(getattr(event_name, "value", event_name)).split(":")
    if group == "ObjectCreated" and kind == "Put" and key.multipart is not None:
        return  # moto's second event of a completed multipart upload
    if group == "ObjectTagging" and getattr(_thread, "writing", False):
        return  # moto's second event of every PutObject
    events.publish(
        source="aws.s3",
        detail_type=notifications._detail_type(event_name),
        resources=[bucket.arn],
        detail=lambda: _detail(bucket, kind, key),
    )


def _detail(bucket: Any, kind: str, key: Any) -> dict[str, Any]:
    """The key as it is: unlike in notifications to SQS or Lambda, it is not URL-encoded (case R02)."""
    described: dict[str, Any] = {"key": key.name}
    if not kind.startswith("Delete"):
        described |= {"size": key.size, "etag": key.etag.strip('"')}
    if bucket.is_versioned:
        described["version-id"] = key.version_id
    described["sequencer"] = f"{next(_sequence):016X}"
    return {
        "version": "0",
        "bucket": {"name": bucket.name},
        "object": described,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": surroundings.ACCOUNT,
        "source-ip-address": "127.0.0.1",
        "reason": REASONS.get(kind, kind),
        **({"deletion-type": "Permanently Deleted"} if kind == "Delete" else {}),
    }
