"""A sandbox whose S3 ignores conditions does not get ready (case-Q06)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox import self_check, surroundings
from sandbox.state import SandboxError
from tests.sandbox.conftest import Bare, sandbox_command


class Careless:
    """An S3 that does not look at some conditions."""

    def __init__(self, s3: Any, *ignored: str, after: int = 0) -> None:
        self._s3, self._ignored, self._after = s3, ignored, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)

    def put_object(self, **arguments: Any) -> Any:
        self._after -= 1
        if self._after < 0:
            arguments = {name: value for name, value in arguments.items() if name not in self._ignored}
        return self._s3.put_object(**arguments)


def test_ours_enforces_them_and_leaves_nothing(bare: Bare) -> None:
    s3 = bare.client("s3")
    before = [one["Name"] for one in s3.list_buckets()["Buckets"]]
    self_check.conditional_writes(s3)
    assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == before


@pytest.mark.parametrize(
    ("ignored", "after", "what"),
    [
        ("IfNoneMatch", 0, "If-None-Match: * lets an object be replaced"),
        ("IfMatch", 0, "If-Match accepts an ETag that the object had before"),
        ("IfNoneMatch", 4, f"of {self_check.RACERS} that create one object at once {self_check.RACERS} win"),
    ],
)
def test_one_that_does_not_is_told(bare: Bare, ignored: str, after: int, what: str) -> None:
    s3 = bare.client("s3")
    before = [one["Name"] for one in s3.list_buckets()["Buckets"]]
    with pytest.raises(SandboxError, match="does not enforce conditional writes") as caught:
        self_check.conditional_writes(Careless(s3, ignored, after=after))
    assert what in str(caught.value)
    assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == before


def test_up_tries_it_and_gives_up(tmp_path: Path) -> None:
    """With an S3 that takes every conditional write."""
    (tmp_path / "sitecustomize.py").write_text(
        "from sandbox import self_check\n"
        "from tests.sandbox.test_self_check import Careless\n"
        "enforced = self_check.conditional_writes\n"
        "self_check.conditional_writes = lambda s3: enforced(Careless(s3, 'IfNoneMatch'))\n"
    )
    folder = tmp_path / "sandbox"
    try:
        ended = sandbox_command(folder, "up", "--detach", PYTHONPATH=f"{tmp_path}:{surroundings.ROOT}")
        assert ended.returncode == 1
        assert "does not enforce conditional writes" in ended.stderr
    finally:
        sandbox_command(folder, "down")
