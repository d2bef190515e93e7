"""Attempts to and from two real S3s (F8, F10, F15, F17)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import IncompleteRead, ProtocolError

from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.results import AlienAttemptError, TransferError
from longhaul.fleet.transfer import CONFIG, STORED, Transfer, contained
from tests.contract.store.faults import Faults

PLACE = Place(job="job", attempt=Attempt(generation=1, number=2))
ENVIRONMENT = json.dumps({"manifest_sha256": "m1", "worker_version": "1.0", "cpu": "x"}).encode()


@pytest.fixture
def transfer(client: Any, location: str, tmp_path: Path) -> Transfer:
    """Of a worker with an empty directory."""
    return Transfer(
        client=client,
        location=Location(bucket="fleet", prefix=location),
        keys=QueueKeys("q"),
        directory=Directory(tmp_path / "worker"),
        manifest_sha256="m1",
        worker_version="1.0",
    )


def _store(transfer: Transfer, name: str, body: bytes = b"x", place: Place = PLACE) -> None:
    key = transfer.location.prefix + transfer.keys.attempt(place.job, place.attempt) + name
    transfer.client.put_object(Bucket="fleet", Key=key, Body=body)


def _stored(transfer: Transfer, name: str) -> bytes:
    key = transfer.location.prefix + transfer.keys.attempt(PLACE.job, PLACE.attempt) + name
    body: bytes = transfer.client.get_object(Bucket="fleet", Key=key)["Body"].read()
    return body


def _write(transfer: Transfer, name: str, body: bytes = b"x") -> Path:
    path = transfer.directory.attempt(PLACE) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


def _local(transfer: Transfer) -> dict[str, bytes]:
    folder = transfer.directory.attempt(PLACE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_attempts_are_listed_in_order(transfer: Transfer) -> None:
    """F20: of the generations that count, by number and not by name, and of this job alone."""
    for generation, number in ((0, 1), (1, 2), (1, 10), (1, 9), (2, 11), (10, 12)):
        attempt = Attempt(generation=generation, number=number)
        _store(transfer, "checkpoint/a.json", place=Place(job="job", attempt=attempt))
    _store(transfer, "log.txt", place=Place(job="job-2", attempt=Attempt(generation=1, number=3)))
    prefix = transfer.location.prefix + transfer.keys.results("job")
    transfer.client.put_object(Bucket="fleet", Key=f"{prefix}g1/attempt-x/y", Body=b"")
    found = [(p.attempt.generation, p.attempt.number) for p in transfer.attempts("job", range(1, 3))]
    assert found == [(1, 2), (1, 9), (1, 10), (2, 11)]
    assert not transfer.attempts("nothing", range(3))


def test_what_was_uploaded_is_downloaded(transfer: Transfer, tmp_path: Path) -> None:
    """F10, S53: all of it, with the ETags that S3 then has; another host finds the same."""
    files = {"environment.json": ENVIRONMENT, "log.txt": b"", "checkpoint/a.rep-0.json": b"{}", "events.jsonl": b"e\n"}
    for name, body in files.items():
        _write(transfer, name, body)
    _write(transfer, "checkpoint/.a.rep-1.json.new", b"half a")
    (transfer.directory.attempt(PLACE) / "link").symlink_to("/etc/hosts")
    records = transfer.upload(PLACE)
    prefix = transfer.keys.attempt(PLACE.job, PLACE.attempt)
    assert [record.key for record in records] == sorted(prefix + name for name in files)
    for record in records:
        head = transfer.client.head_object(Bucket="fleet", Key=transfer.location.prefix + record.key)
        assert head["ETag"].strip('"') == record.etag
    other = Transfer(**{**vars(transfer), "directory": Directory(tmp_path / "other")})
    other.download(PLACE)
    assert _local(other) == files


def test_s18_only_what_s3_lacks_is_sent(transfer: Transfer, inject: Callable[..., Faults]) -> None:
    """S18: records that the orchestrator stored are not sent again; what grew is."""
    for name in ("a.rep-0", "a.rep-1"):
        _store(transfer, f"checkpoint/{name}.json", b"{}")
    files = {
        "checkpoint/a.rep-0.json": b"{}",
        "checkpoint/a.rep-1.json": b"{}",
        "log.txt": b"one",
        "trials.jsonl": b"t",
    }
    for name, body in files.items():
        _write(transfer, name, body)
    etag = hashlib.md5(b"{}", usedforsecurity=False).hexdigest()
    told = [json.dumps({"name": f"checkpoint/{name}.json", "etag": etag}) for name in ("a.rep-0", "a.rep-1")]
    _write(transfer, STORED, f"{told[0]}\n{told[1][:-9]}".encode())  # the run was killed while it wrote down the second
    sent = inject()
    first = transfer.upload(PLACE)
    assert sent.attempts == 2 + 2, "two files; and one that turns out to be there"
    _write(transfer, "log.txt", b"one two")
    sent.attempts = 0
    second = transfer.upload(PLACE, ["log.txt", "checkpoint/a.rep-0.json", "checkpoint/a.rep-1.json"])
    assert sent.attempts == 1
    assert _stored(transfer, "log.txt") == b"one two"
    assert second[1:] == first[:2]
    with pytest.raises(TransferError, match="nothing-of-that-name"):
        transfer.upload(PLACE, ["nothing-of-that-name"])


def test_s26_a_stalled_upload_does_not_land_over_a_newer_one(transfer: Transfer) -> None:
    """S26, S42: the request of an earlier upload, carried out after a later one, is refused."""
    stalled: list[dict[str, Any]] = []

    def note(params: dict[str, Any], **named: Any) -> None:
        stalled.append(dict(params))

    _write(transfer, "log.txt", b"old")
    transfer.client.meta.events.register("before-parameter-build.s3.PutObject", note)
    try:
        transfer.upload(PLACE)
        _write(transfer, "log.txt", b"newer")
        transfer.upload(PLACE)
        _write(transfer, "log.txt", b"newest")
        transfer.upload(PLACE)
    finally:
        transfer.client.meta.events.unregister("before-parameter-build.s3.PutObject", note)
    assert len(stalled) == 3
    for request in stalled[:2]:
        with pytest.raises(transfer.client.exceptions.ClientError, match="PreconditionFailed"):
            transfer.client.put_object(**request)
    assert _stored(transfer, "log.txt") == b"newest"


@pytest.mark.parametrize("fault", ["reset after it was carried out", "409", "503", "lost"])
def test_an_upload_whose_answer_is_lost_stands(transfer: Transfer, inject: Callable[..., Faults], fault: str) -> None:
    """S49: botocore's second try is refused because the first was carried out."""
    _write(transfer, "log.txt", b"one")
    inject(fault)
    (record,) = transfer.upload(PLACE)
    head = transfer.client.head_object(Bucket="fleet", Key=transfer.location.prefix + record.key)
    assert head["ETag"].strip('"') == record.etag
    assert _stored(transfer, "log.txt") == b"one"


NAMES = ["../x.py", "../../x.py", "a/../../x.py", "/etc/x", "a//b", "a/./b", "..", "a\\..\\x.py", "a/"]


@pytest.mark.parametrize("name", NAMES)
def test_s47_names_stay_in_the_folder(name: str) -> None:
    """S47, I9: absolute, climbing, empty, with a backslash."""
    assert not contained(name)


def test_s47_a_name_that_climbs_is_left_alone(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """S47, I9: nothing outside the folder is written, and the attempt is still usable."""
    _store(transfer, "environment.json", ENVIRONMENT)
    _store(transfer, "checkpoint/a.json", b"{}")
    _store(transfer, "")  # as a console makes a folder
    whole = Transfer._pages

    def pages(self: Transfer, prefix: str, **how: Any) -> Any:
        for page in whole(self, prefix, **how):
            climbing = [
                {**page["Contents"][0], "Key": page["Contents"][0]["Key"] + name} for name in ("/../../x", "\\x")
            ]
            yield {**page, "Contents": [*page["Contents"], *climbing]}

    monkeypatch.setattr(Transfer, "_pages", pages)  # stores refuse some of these names, S3 does not
    transfer.download(PLACE)
    root = transfer.directory.root
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    here = "results/job/g1/attempt-2/"
    assert files == {here + "environment.json", here + "checkpoint/a.json"}


def test_a_download_leaves_what_s3_has(transfer: Transfer, tmp_path: Path) -> None:
    """I7: what S3 never got would count as measured here, and be missing in the report. No link is followed."""
    _store(transfer, "environment.json", ENVIRONMENT)
    _store(transfer, "checkpoint/a.rep-0.json", b"{}")
    _write(transfer, "checkpoint/a.rep-1.json", b"{}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (transfer.directory.attempt(PLACE) / "events").symlink_to(outside)
    _store(transfer, "events/x", b"e")
    transfer.download(PLACE)
    names = {"environment.json", "checkpoint/a.rep-0.json", "events/x"}
    assert _local(transfer).keys() == names
    assert not list(outside.iterdir())
    transfer.download(PLACE)
    assert _local(transfer).keys() == names


@pytest.mark.parametrize(
    "environment",
    [
        None,
        b"{",
        b"{}",
        json.dumps({"manifest_sha256": "other", "worker_version": "1.0"}).encode(),
        json.dumps({"manifest_sha256": "m1", "worker_version": "2.0"}).encode(),
    ],
)
def test_an_alien_is_not_resumed(transfer: Transfer, environment: bytes | None) -> None:
    """F10: of another manifest or another version; also if it does not say."""
    if environment is not None:
        _store(transfer, "environment.json", environment)
    _store(transfer, "checkpoint/a.rep-0-start.json", b"{}")
    with pytest.raises(AlienAttemptError, match="job g1/attempt-2"):
        transfer.download(PLACE)
    assert "checkpoint/a.rep-0-start.json" not in _local(transfer)


def test_an_attempt_that_never_began_is_no_alien(transfer: Transfer) -> None:
    """F10: it left a log and nothing to resume from."""
    _store(transfer, "log.txt", b"l")
    transfer.download(PLACE)
    assert _local(transfer) == {"log.txt": b"l"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, False),
        ("log.txt", False),
        ("checkpoint/a.rep-0-start.json", False),
        ("checkpoint/a.rep-0.txt", False),
        ("checkpoint/a.warmup-0.json", False),
        ("checkpoint/a.warmup-0.g1-a2.json", False),
        ("checkpoint/a.rep-0.g1-a2-start.json", False),
        ("checkpoint/a.rep-0.json", True),
        ("checkpoint/a.rep-0.g1-a2.json", True),
        ("checkpoint/a.rep-1.g1-a2-3.json", True),
    ],
)
def test_what_counts_as_measured(transfer: Transfer, name: str | None, expected: bool) -> None:
    """F17: any record of a repetition; every attempt has warm-ups of its own (S68)."""
    if name:
        _store(transfer, name)
    assert transfer.measured(PLACE) is expected


def test_s68_what_an_earlier_attempt_recorded_is_no_progress(transfer: Transfer) -> None:
    """F17: a failure that each attempt records again, before its host dies, would have the job taken for ever."""
    earlier, later = (Place(job="job", attempt=Attempt(generation=1, number=number)) for number in (1, 3))
    before = Place(job="job", attempt=Attempt(generation=0, number=1))
    _store(transfer, "checkpoint/a.rep-0.g1-a2.json")
    _store(transfer, "checkpoint/a.rep-0.g1-a3.json", place=later)
    _store(transfer, "checkpoint/a.rep-0.g0-a1.json", place=before)
    assert transfer.measured(PLACE)
    assert not transfer.measured(later)
    _store(transfer, "checkpoint/a.rep-0.g1-a1-2.json", place=earlier)
    assert not transfer.measured(PLACE)
    _store(transfer, "checkpoint/b.rep-0.g1-a2.json")
    assert transfer.measured(PLACE)


@pytest.mark.parametrize(
    "faults", [["503"] * 4, ["lost"] * 4, ["403 ExpiredToken"], ["404 NoSuchBucket"], ["no XML"] * 4]
)
def test_every_error_is_one_type(transfer: Transfer, inject: Callable[..., Faults], faults: list[str]) -> None:
    """S14, S77: so that whoever waits for a transfer needs to know one."""
    _write(transfer, "log.txt", b"l")
    injected = inject()
    for ask in (
        lambda: transfer.attempts("job", range(2)),
        lambda: transfer.download(PLACE),
        lambda: transfer.upload(PLACE),
        lambda: transfer.measured(PLACE),
    ):
        injected.faults = list(faults)
        with pytest.raises(TransferError):
            ask()


def test_half_a_file_is_none(transfer: Transfer, inject: Callable[..., Faults]) -> None:
    """S14, I7: a body that ends early is an error, and leaves no file."""
    _store(transfer, "environment.json", ENVIRONMENT)
    _store(transfer, "trials.jsonl", b"0123456789")
    inject(None, None, "half a body")
    with pytest.raises(TransferError):
        transfer.download(PLACE)
    assert _local(transfer).keys() == {"environment.json"}


def test_transfers_do_not_use_the_leases_connections() -> None:
    """F8: patient, with a pool for all files at once."""
    assert CONFIG.read_timeout >= 30
    assert CONFIG.max_pool_connections >= 8


@pytest.mark.parametrize(
    "error",
    [
        ResponseParserError("half"),
        IncompleteRead(0, 5),
        ProtocolError("gone"),
        ReadTimeoutError(endpoint_url="x"),
        OSError("disk full"),
        KeyError("ETag"),
    ],
)
def test_whatever_half_an_answer_makes_of_botocore(
    transfer: Transfer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """S14: half an answer comes as any of these."""

    def fails(**named: Any) -> None:
        raise error

    _write(transfer, "log.txt")
    monkeypatch.setattr(transfer.client, "put_object", fails)
    with pytest.raises(TransferError, match="upload job g1/attempt-2"):
        transfer.upload(PLACE)
