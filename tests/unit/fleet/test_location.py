"""Locations of results (I9)."""

from __future__ import annotations

import pytest

from longhaul.fleet.location import IllegalLocationError, Location


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://results/longhaul/stack/", "results", "longhaul/stack/"),
        ("s3://results/longhaul/stack", "results", "longhaul/stack/"),
        ("s3://results", "results", ""),
        ("s3://results/\n", "results", ""),
    ],
)
def test_what_people_write(text: str, bucket: str, prefix: str) -> None:
    """With or without the slash, as a file has it."""
    location = Location.parse(text)
    assert location == Location(bucket=bucket, prefix=prefix)
    assert str(location) == f"s3://{bucket}/{prefix}"


@pytest.mark.parametrize(
    "text", ["", "results/x", "https://results/x", "s3://", "s3:///x", "s3://A/x", "s3://abc/a//b"]
)
def test_what_is_none(text: str) -> None:
    """It is refused before anything is asked of S3."""
    with pytest.raises(IllegalLocationError, match="location"):
        Location.parse(text)


def test_a_bucket_that_cannot_be_is_named() -> None:
    """R22: such as one that looks just like what is wanted."""
    with pytest.raises(IllegalLocationError, match="no bucket can be called 'x'"):
        Location.parse("s3://x/prefix/")


@pytest.mark.parametrize("prefix", ["..", "a/../b", "a/./b", "a b", "a\\b", "ü"])
def test_prefixes_that_keys_could_not_have(prefix: str) -> None:
    """I9: what could climb, or be taken apart otherwise."""
    with pytest.raises(IllegalLocationError, match="prefix"):
        Location.parse(f"s3://abc/{prefix}/")
