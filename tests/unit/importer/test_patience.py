"""Patience with a busy warehouse: growing pauses, never longer than the time that is left."""

from __future__ import annotations

from longhaul.importer.warehouse_session import Patience


def test_pauses_grow_and_end_after_five_minutes() -> None:
    now, pauses = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    patience = Patience(300, clock=lambda: now, sleep=sleep, draw=lambda: 1.0)
    while patience.pause():
        now += 1  # an attempt takes time too
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(pauses) == 20.0
    assert 299 <= now <= 301
