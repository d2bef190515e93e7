"""W5: of rival claims the newest wins, whatever the order in which they are looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from longhaul.warehouse.ownership import Claim, decide, rank

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = st.none() | st.integers(0, 2).map(lambda n: START + timedelta(seconds=n))


@st.composite
def logs(draw: st.DrawFn, location: str) -> list[Claim]:
    updated, created = draw(TIMES), draw(TIMES)
    found = {}
    for uuid in draw(st.lists(st.sampled_from("uvwxyz"), unique=True)):
        claim = Claim(
            location=location,
            uuid=uuid,
            eval_id=draw(st.sampled_from("ef")),
            id=draw(st.sampled_from("12")),
            epoch=1,
            rank=rank(draw(TIMES), updated, created, location),
        )
        found[claim.place] = claim
    return list(found.values())


@given(logs("a"), logs("b"), st.randoms())
def test_w5_the_greatest_rank_wins_every_contest(mine: list[Claim], held: list[Claim], draw) -> None:
    decision = decide(mine, held)
    kept = [claim for claim in mine if claim.uuid not in decision.lost]
    kept += [claim for claim in held if claim.uuid not in decision.displaced]
    assert len({claim.uuid for claim in kept}) == len({claim.place for claim in kept}) == len(kept)
    for gone in [*mine, *held]:
        if gone not in kept:
            rivals = [one for one in kept if one.uuid == gone.uuid or one.place == gone.place]
            assert max(one.rank for one in rivals) > gone.rank
    draw.shuffle(mine)
    draw.shuffle(held)
    assert decide(mine, held) == decision


def test_an_unknown_time_is_the_oldest() -> None:
    assert rank(None, START, START, "z") < rank(START, None, None, "a")
    assert rank(START, None, START, "z") < rank(START, START, None, "a")
    assert rank(START, START, START, "a") < rank(START, START, START, "b")
