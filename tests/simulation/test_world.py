"""Virtual time itself."""

from __future__ import annotations

from tests.simulation.workers.instance import Body
from tests.simulation.world import Event, World

WAITS, TURNS = 2000, 100


def test_whoever_waits_by_a_slow_clock_comes_to_an_end() -> None:
    """It is waited for again and again, the less the nearer; a wait that is lost in `now` would be without end."""
    world = World()
    turns = []

    def clock() -> float:
        return 1000 + world.now * 0.92

    def wait() -> None:
        until = clock() + 1 + len(turns) / 70
        for turn in range(TURNS):
            left = until - clock()
            if left <= 0:
                turns.append(turn)
                return
            Event(world).wait(left)

    for number in range(WAITS):
        world.at(16_400 + number / 10, lambda: world.spawn(Body(0.0), wait))  # from 16,384 on `now` is coarser
    world.run(20_000)
    assert len(turns) == WAITS
