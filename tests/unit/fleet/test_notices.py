"""Notices of an instance, and rehearsals (F12)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.fleet.imds import Metadata, MetadataError
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.notices import InstanceNotices, Rehearsal
from tests.unit.fleet.metadata_server import META, TOKEN, MetadataServer, metadata_server

ACTION, STATE = f"{META}spot/instance-action", f"{META}autoscaling/target-lifecycle-state"
REBALANCE = f"{META}events/recommendations/rebalance"
SAID = '{"action": "%s", "time": "%s"}'


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    """A service that has no notice."""
    with metadata_server() as running:
        running.items[STATE] = "InService"
        yield running


@pytest.fixture
def notices(server: MetadataServer, tmp_path: Path) -> InstanceNotices:
    """Of the instance, and of its worker's directory."""
    return InstanceNotices(Metadata(server.endpoint), tmp_path / "interruption-notice")


@pytest.mark.parametrize("kind", [NoticeKind.TERMINATE, NoticeKind.STOP, NoticeKind.HIBERNATE])
@pytest.mark.parametrize("when", ["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z", ""])
def test_every_action_at_any_time(
    server: MetadataServer, notices: InstanceNotices, kind: NoticeKind, when: str
) -> None:
    """case-Q10, case-Q12: stop and hibernate too, past or with time left; before it there was none (404)."""
    assert notices.check() is None
    server.items[ACTION] = SAID % (kind, when)
    assert notices.check() == Notice(kind=kind, text=server.items[ACTION])


def test_an_action_nobody_knows(server: MetadataServer, notices: InstanceNotices) -> None:
    """case-Q10: is taken for the worst."""
    server.items[ACTION] = SAID % ("explode", "")
    found = notices.check()
    assert found is not None
    assert found.kind is NoticeKind.TERMINATE


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '"terminate"', '{"action": "termin', '{"time": "x"}', '{"action": 7}']
)
def test_broken_json_is_asked_again(server: MetadataServer, notices: InstanceNotices, text: str) -> None:
    """case-Q10: an error now, and the notice once it is whole."""
    server.items[ACTION] = text
    with pytest.raises(MetadataError):
        notices.check()
    server.items[ACTION] = SAID % ("terminate", "")
    assert notices.check() is not None


@pytest.mark.parametrize("trouble", [401, 403, 500, "half", "hang", "reset", "no HTTP", "drip"])
def test_s58_trouble_is_survived_and_hides_nothing(
    server: MetadataServer, notices: InstanceNotices, tmp_path: Path, trouble: object
) -> None:
    """S58, S14: an error within 5 s; what the group says is found beside it, and the file beside all."""
    server.trouble[ACTION] = trouble
    before = time.monotonic()
    with pytest.raises(MetadataError):
        notices.check()
    server.items[STATE] = "Terminated"
    found = notices.check()
    assert found is not None
    assert found.kind is NoticeKind.SCALE_IN
    assert time.monotonic() - before < 20
    (tmp_path / "interruption-notice").write_text("drill")
    assert notices.check() == Notice(kind=NoticeKind.REHEARSAL, text="drill")
    (tmp_path / "interruption-notice").unlink()
    server.items[STATE] = "InService"
    server.trouble.clear()
    assert notices.check() is None


def test_s58_a_service_that_hangs_takes_five_seconds_at_most(
    server: MetadataServer, notices: InstanceNotices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S58, S25: all questions together, also when the token does not come; then a notice is found at once."""
    left: list[float] = []
    item = Metadata.item

    def watched(metadata: Metadata, path: str, *, seconds: float) -> str | None:
        left.append(seconds)
        return item(metadata, path, seconds=seconds)

    monkeypatch.setattr(Metadata, "item", watched)
    server.trouble[TOKEN] = "hang"
    with pytest.raises(MetadataError):
        notices.check()
    assert 5 > left[0] > left[1] + 2 > left[2] + 4, "each has what the ones before left of it"
    server.trouble.clear()
    server.items[ACTION] = SAID % ("terminate", "")
    assert notices.check() is not None


def test_the_groups_intention(server: MetadataServer, notices: InstanceNotices) -> None:
    """F12: it terminates the instance, and its hook waits; other states are none of ours."""
    for state in ("InService", "Standby", "Detached", ""):
        server.items[STATE] = state
        assert notices.check() is None
    del server.items[STATE]
    assert notices.check() is None, "of an instance in no group"
    server.items[STATE] = "Terminated"
    assert notices.check() == Notice(kind=NoticeKind.SCALE_IN, text="Terminated")


def test_a_recommendation_is_no_notice(server: MetadataServer, notices: InstanceNotices) -> None:
    """case-Q11: it is recorded, and the trial goes on."""
    server.items[REBALANCE] = '{"noticeTime": "2030-01-01T00:00:00Z"}'
    for _ in range(3):
        assert notices.check() is None
    assert notices.recommended == server.items[REBALANCE]
    server.items[ACTION] = SAID % ("terminate", "")
    assert notices.check() is not None, "the real one still counts"


def test_a_rehearsal(tmp_path: Path) -> None:
    """F12, S20: as long as the file is there, whatever is in it."""
    path = tmp_path / "interruption-notice"
    rehearsal = Rehearsal(path)
    assert rehearsal.check() is None
    path.write_bytes(b"\xff")
    assert rehearsal.check() is not None
    path.unlink()
    assert rehearsal.check() is None
    path.mkdir()
    assert rehearsal.check() == Notice(kind=NoticeKind.REHEARSAL, text="IsADirectoryError")
