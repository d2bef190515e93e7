"""A worker's surroundings on a real host."""

from __future__ import annotations

import hashlib
import json
import resource
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.premises import DiskJournal, QueueOnHost
from longhaul.fleet.queue import QueueDocument, QueueError
from longhaul.fleet.surroundings import Quarantine
from longhaul.fleet.taking import Job
from longhaul.fleet.transfer import Transfer
from longhaul.fleet.work import Unconfirmed, Work
from tests.unit.fleet.memory import EPOCH, MemoryStore

KEYS = QueueKeys("q")
QUARANTINE = Quarantine(
    places=(Place(job="a", attempt=Attempt(generation=1, number=2)),),
    unconfirmed=Unconfirmed(queries=("q1",), prefixes=("s3://b/t/",)),
)


@pytest.fixture
def on_host(store: MemoryStore, tmp_path: Path) -> QueueOnHost:
    """Of a worker whose queue is not published."""
    return QueueOnHost(
        store=store,
        keys=KEYS,
        directory=Directory(tmp_path),
        location=Location(bucket="bucket"),
        transfers=cast("Any", None),
        work=cast("Work", object()),
        worker_version="1.0",
    )


def _publish(store: MemoryStore, *, version: str = "1.0") -> dict[str, bytes]:
    files = {"config.toml": b"c", "jobs.json": b'[{"id": "a", "api_weight": 2, "weight": 1.5, "cases": {}}]'}
    named = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    files["manifest.json"] = json.dumps({"run": "r", "sha256": named}).encode()
    for name, body in files.items():
        store.store(KEYS.document(name), body)
    manifest = hashlib.sha256(files["manifest.json"]).hexdigest()
    document = QueueDocument(api_slots=3, run_id="r", published=EPOCH, worker_version=version, manifest_sha256=manifest)
    store.store(KEYS.document("queue.json"), msgspec.json.encode(document))
    return files


def test_a_queue_comes_with_its_documents(store: MemoryStore, on_host: QueueOnHost, tmp_path: Path) -> None:
    """F9: in the directory once it is published, and nothing before."""
    assert on_host.published() is None
    assert not (tmp_path / "queue").exists()
    files = _publish(store)
    found = on_host.published()
    assert found is not None
    assert found.jobs == (Job(id="a", api_weight=2),)
    assert found.api_slots == 3
    assert found.work is on_host.work
    results = found.results
    assert isinstance(results, Transfer)
    assert results.manifest_sha256 == hashlib.sha256(files["manifest.json"]).hexdigest()
    assert {path.name: path.read_bytes() for path in (tmp_path / "queue").iterdir()} == files


def test_a_queue_for_another_version(store: MemoryStore, on_host: QueueOnHost, tmp_path: Path) -> None:
    """F10: its attempts would be aliens to all others."""
    _publish(store, version="2.0")
    with pytest.raises(QueueError, match=r"for workers 2\.0, this one is 1\.0"):
        on_host.published()
    assert not (tmp_path / "queue").exists()


def test_a_pause(store: MemoryStore, on_host: QueueOnHost) -> None:
    """F25: while the document is there."""
    assert on_host.paused() is False
    store.store("fleet/q/paused.json", b"{}")
    assert on_host.paused() is True


def test_a_quarantine_outlives_its_worker(tmp_path: Path) -> None:
    """F14, S45: exactly as it was written; cleared it is none."""
    journal = DiskJournal(Directory(tmp_path))
    assert journal.quarantine() is None
    journal.write(QUARANTINE)
    assert DiskJournal(Directory(tmp_path)).quarantine() == QUARANTINE
    journal.write(None)
    journal.write(None)
    assert journal.quarantine() is None


def test_a_quarantine_that_cannot_be_read_is_not_none(tmp_path: Path) -> None:
    """I5: it may hold anything."""
    (tmp_path / "quarantine.json").write_text('{"places": [')
    with pytest.raises(OSError, match="cannot be read"):
        DiskJournal(Directory(tmp_path)).quarantine()


def test_a_quarantine_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """F14: whoever keeps it must know that it does not stand; what stood stays."""
    journal = DiskJournal(Directory(tmp_path))
    journal.write(QUARANTINE)
    (tmp_path / ".quarantine.json.new").mkdir()
    with pytest.raises(OSError, match="quarantine"):
        journal.write(Quarantine(places=(), unconfirmed=Unconfirmed(queries=(), prefixes=())))
    assert journal.quarantine() == QUARANTINE


def test_a_disk_that_takes_no_records(tmp_path: Path) -> None:
    """F14: room for a small file is not enough; and nothing is left of the look."""
    journal = DiskJournal(Directory(tmp_path))
    journal.check()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.check()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_s20_a_rehearsal_of_the_past(tmp_path: Path) -> None:
    """S20: is cleared; without one nothing happens."""
    journal = DiskJournal(Directory(tmp_path))
    journal.clear_rehearsal()
    (tmp_path / "interruption-notice").touch()
    journal.clear_rehearsal()
    assert not (tmp_path / "interruption-notice").exists()
