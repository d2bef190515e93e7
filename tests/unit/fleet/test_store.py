"""What the fleet's own S3 client does before anything of it reaches the store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.utils import parse_timestamp

from longhaul.fleet.store import S3Store, lease_client, timestamp

DATE = "Wed, 02 Jan 2030 03:04:06 GMT"
LISTING = b"""<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><Contents>
<Key>a</Key><LastModified>2030-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag></Contents></ListBucketResult>"""


class Body:
    """As urllib3 has it."""

    def stream(self) -> Any:
        """In one piece."""
        yield LISTING


@pytest.mark.parametrize(
    "value", ["2030-01-02T03:04:05.000Z", "2030-01-02T03:04:05Z", "Wed, 02 Jan 2030 03:04:05 GMT", 1893553445]
)
def test_a_time_is_what_botocore_makes_of_it(value: Any) -> None:
    """F4: whichever way it is written."""
    assert timestamp(value) == parse_timestamp(value) == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_time_that_is_none_is_an_error_as_it_is_to_botocore() -> None:
    """S14."""
    for value in ("Z", "soon"):
        with pytest.raises(ValueError, match=value):
            timestamp(value)


def test_the_lease_client_reads_the_times_of_listings_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """F8: a thousand to a page, at each look; botocore's own way leaves its mark on the time zone."""
    for name, text in (("DEFAULT_REGION", "us-east-1"), ("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "x")):
        monkeypatch.setenv(f"AWS_{name}", text)
    client = lease_client()
    client.meta.events.register("before-send.s3", lambda **_: AWSResponse("http://s3", 200, {"Date": DATE}, Body()))
    listing = S3Store(client, "bucket").list("a")
    assert [one.modified for one in listing.objects] == [datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)]
    assert listing.objects[0].modified.tzinfo is UTC
