"""Where the log comes from: one conditional GET of an S3 object, spooled to disk, or a file at hand (W3, W6).

botocore retries throttling and dead connections before the first byte; a body that breaks off is resumed here, with
If-Match, so that the bytes are always of one version.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError
    from mypy_boto3_s3.client import S3Client

CHUNK_BYTES = 1 << 20
HEADROOM_BYTES = 512 << 20  # left free for attachments of large samples
RESUMPTIONS = 3
_ABSENT = {"404", "NoSuchKey", "NoSuchBucket", "NotFound", "403", "AccessDenied", "InvalidAccessKeyId"}
_CHANGED = {"412", "PreconditionFailed"}
_UNCHANGED = {"304", "NotModified"}
# S3 or KMS is busy, or a token ran out: botocore's own tries were in vain, Batch's may not be (exit 21).
_PASSING = {"RequestTimeout", "ExpiredToken", "RequestTimeTooSkewed", "KMS.ThrottlingException"}


class SourceError(Exception):
    """The log cannot be had; the message is one line."""


class LogNotFoundError(SourceError):
    """There is no such log, or no permission to read it (S3 may say 403 for either)."""


class LogTooLargeError(SourceError):
    """The log does not fit the disk."""


class LogChangedError(SourceError):
    """The log changed while being read."""


class LogUnreadableError(SourceError):
    """S3 did not hand over the log, or not all of it, this time: it may at another."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A log on disk; `path` is valid until `close()`."""

    path: Path
    etag: str
    size_bytes: int
    last_modified: datetime | None
    spool: IO[bytes] | None = None

    def close(self) -> None:
        """Give the disk space back."""
        if self.spool is not None:
            self.spool.close()


def fetch_object(bucket: str, key: str, known_etag: str | None) -> Fetched | None:
    """Spool an object to disk; None when its ETag is still `known_etag` (then nothing of it was read)."""
    from botocore.exceptions import BotoCoreError, ClientError

    from longhaul.importer.client import s3

    condition: dict[str, Any] = {"IfNoneMatch": _quoted(known_etag)} if known_etag else {}
    try:
        client = s3()
        answer = client.get_object(Bucket=bucket, Key=key, **condition)
    except ClientError as error:
        if _code(error) in _UNCHANGED:
            return None
        raise _refused(error) from error
    except BotoCoreError as error:
        raise _unasked(error) from error
    size, etag = answer["ContentLength"], answer["ETag"].strip('"')
    if etag == known_etag:
        answer["Body"].close()
        return None
    _require_space(size)
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by Fetched.close(); has no name that kill -9 could leave
    try:
        _spool(client, bucket, key, answer, spool)
    except BaseException:
        spool.close()
        raise
    path = Path(f"/dev/fd/{spool.fileno()}")
    return Fetched(path=path, etag=etag, size_bytes=size, last_modified=answer["LastModified"], spool=spool)


def open_file(path: Path, known_etag: str | None) -> Fetched | None:
    """A log that is a file; size and time of change stand for its ETag."""
    try:
        found = path.stat()
        with open(path, "rb"):
            pass
    except OSError as error:
        raise LogNotFoundError(f"the file cannot be read: {error.strerror}") from error
    etag = f"{found.st_size}-{found.st_mtime_ns}"
    if etag == known_etag:
        return None
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    return Fetched(path=path, etag=etag, size_bytes=found.st_size, last_modified=modified)


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _refused(error: ClientError) -> SourceError:
    code = _code(error)
    if code in _CHANGED:
        return LogChangedError("the log changed while it was being read")
    if code in _ABSENT:
        return LogNotFoundError(f"there is no such log, or no permission to read it ({code})")
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _PASSING or status == 429 or status >= 500:
        return LogUnreadableError(f"S3 does not hand over the log now ({code}): try again later")
    return LogNotFoundError(f"S3 refused to hand over the log: {code}: {error}")


def _unasked(error: BotoCoreError) -> SourceError:
    from botocore import exceptions

    passing = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.MetadataRetrievalError)
    if isinstance(error, (*passing, exceptions.CredentialRetrievalError)):
        return LogUnreadableError(f"S3 cannot be reached: {error}")
    return LogNotFoundError(f"S3 cannot be asked for the log: {error}")


def _require_space(size: int) -> None:
    """Refuse before the download what the disk cannot hold."""
    limit = os.environ.get("LONGHAUL_SPOOL_BYTES")
    space = int(limit) if limit else shutil.disk_usage(tempfile.gettempdir()).free - HEADROOM_BYTES
    if size > space:
        raise LogTooLargeError(f"the log has {size} bytes, more than the {max(space, 0)} that the disk has left for it")


def _spool(client: S3Client, bucket: str, key: str, answer: Any, spool: IO[bytes]) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    size, etag, body = answer["ContentLength"], answer["ETag"], answer["Body"]
    for attempt in range(RESUMPTIONS + 1):
        try:
            while chunk := body.read(CHUNK_BYTES):
                spool.write(chunk)
            spool.flush()
            if spool.tell() == size:
                return
        except BotoCoreError:
            pass  # broken off
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise LogTooLargeError("the disk is full") from error
            raise
        if attempt == RESUMPTIONS:
            break
        try:
            span = f"bytes={spool.tell()}-"
            body = client.get_object(Bucket=bucket, Key=key, Range=span, IfMatch=etag)["Body"]
        except ClientError as error:
            if _code(error) in _ABSENT:
                raise LogChangedError("the log changed while it was being read") from error
            raise _refused(error) from error
        except BotoCoreError as error:
            raise _unasked(error) from error
    raise LogUnreadableError(f"the log broke off after {spool.tell()} of {size} bytes")
