"""Where notices come from: a rehearsal's file, and the instance's metadata (F12)."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec

from longhaul.fleet.imds import Metadata, MetadataError
from longhaul.fleet.machine import Notice, NoticeKind

logger = logging.getLogger(__name__)

CHECK_SECONDS = 4.5  # for all that is asked at one look
_ACTION = "spot/instance-action"
_STATE = "autoscaling/target-lifecycle-state"
_REBALANCE = "events/recommendations/rebalance"


class Rehearsal:
    """`Notices` of a host that is no instance: the rehearsal's file alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> Notice | None:
        """See `Notices.check`."""
        try:
            text = self._path.read_text("utf-8", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:  # it is there, whatever it says
            text = type(error).__name__
        return Notice(kind=NoticeKind.REHEARSAL, text=text)


class InstanceNotices:
    """`Notices` of an EC2 instance. What one source does not say hides no other."""

    def __init__(self, metadata: Metadata, rehearsal: Path) -> None:
        self.recommended: str | None = None  # a rebalance recommendation: recorded, never acted on (case-Q11)
        self._metadata = metadata
        self._rehearsal = Rehearsal(rehearsal)

    def check(self) -> Notice | None:
        """See `Notices.check`: the file, Spot's action, the group's intention."""
        until = time.monotonic() + CHECK_SECONDS
        found = self._rehearsal.check()
        errors = []
        for ask in (self._interruption, self._scale_in, self._note_recommendation):
            if found is not None:
                return found
            try:
                found = ask(until)
            except MetadataError as error:
                errors.append(error)
        if found is None and errors:
            raise errors[0]
        return found

    def _interruption(self, until: float) -> Notice | None:
        text = self._metadata.item(_ACTION, seconds=until - time.monotonic())
        return None if text is None else action(text)

    def _scale_in(self, until: float) -> Notice | None:
        """`Terminated` is the state that the group leads the instance to while a terminating hook waits."""
        state = self._metadata.item(_STATE, seconds=until - time.monotonic())
        gone = state is not None and state.strip() in ("Terminated", "Warmed:Terminated")
        return Notice(kind=NoticeKind.SCALE_IN, text=state or "") if gone else None

    def _note_recommendation(self, until: float) -> None:
        text = self._metadata.item(_REBALANCE, seconds=until - time.monotonic())
        if text is not None and text != self.recommended:
            logger.warning("EC2 recommends to rebalance, which is not acted on: %s", text)
            self.recommended = text


class _Action(msgspec.Struct, frozen=True):
    action: str


def action(text: str) -> Notice:
    """Read what `spot/instance-action` says (case-Q10).

    Its time does not matter: past or to come, the host is about to go. Half an answer is an error, and asked again; an
    action that nobody knew when this was written is taken for the worst.
    """
    try:
        said = msgspec.json.decode(text.encode(), type=_Action).action
    except msgspec.DecodeError as error:
        raise MetadataError(f"{_ACTION} says {text!r}: {error}") from error
    known = {kind.value: kind for kind in (NoticeKind.TERMINATE, NoticeKind.STOP, NoticeKind.HIBERNATE)}
    return Notice(kind=known.get(said, NoticeKind.TERMINATE), text=text.strip())
