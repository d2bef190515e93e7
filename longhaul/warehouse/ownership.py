"""Which log a sample belongs to when several hold it (W5): pure decisions over claims.

A claim is a log's statement "I hold this sample". Two claims rival when they name one uuid, or one (eval, id, epoch).
The newest claim wins: by the sample's completion, then the log's last edit, then its creation, then its location.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

_NEVER = datetime.min.replace(tzinfo=UTC)

Rank = tuple[datetime, datetime, datetime, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One sample as one log holds it."""

    location: str
    uuid: str
    eval_id: str
    id: str
    epoch: int
    rank: Rank

    @property
    def place(self) -> tuple[str, str, int]:
        """The place in an eval that only one sample can have."""
        return (self.eval_id, self.id, self.epoch)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What an import does with contested samples."""

    lost: frozenset[str]  # uuids of the imported log that another log keeps
    displaced: frozenset[str]  # uuids of other logs' rows that have to go


def rank(
    completed_at: datetime | None, updated_at: datetime | None, created_at: datetime | None, location: str
) -> Rank:
    """What orders claims; a time that is not known is the oldest."""
    return (completed_at or _NEVER, updated_at or _NEVER, created_at or _NEVER, location)


def decide(mine: Iterable[Claim], held: Collection[Claim]) -> Decision:
    """Decide between the claims of the log being imported and the claims whose rows the warehouse shows now."""
    uuids: set[str] = set()
    places: set[tuple[str, str, int]] = set()
    mine = list(mine)
    lost: set[str] = set()
    displaced: set[str] = set()
    own = {id(claim) for claim in mine}
    for claim in sorted([*mine, *held], key=lambda claim: claim.rank, reverse=True):
        if claim.uuid in uuids or claim.place in places:
            (lost if id(claim) in own else displaced).add(claim.uuid)
            continue
        uuids.add(claim.uuid)
        places.add(claim.place)
    return Decision(lost=frozenset(lost), displaced=frozenset(displaced))
