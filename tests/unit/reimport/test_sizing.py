"""The two tiers (R5)."""

from __future__ import annotations

import pytest

from longhaul.reimport.sizing import JobSize, Tier, Tiers, choose_tier

LIMIT = 10 * 1024**2


@pytest.mark.parametrize(
    ("size", "limit", "tier"),
    [
        (0, LIMIT, Tier.SMALL),
        (LIMIT, LIMIT, Tier.SMALL),
        (LIMIT + 1, LIMIT, Tier.FULL),
        (None, LIMIT, Tier.FULL),
        ("12", LIMIT, Tier.FULL),
        (True, LIMIT, Tier.FULL),
        (0, 0, Tier.FULL),
        (1, 0, Tier.FULL),
    ],
)
def test_tier(size: object, limit: int, tier: Tier) -> None:
    """R5: at most the threshold is small; unknown is full; 0 switches downsizing off, for size 0 too."""
    assert choose_tier(size, limit) is tier


def test_sources_say_the_same() -> None:
    environment = {
        "SMALL_MAX_BYTES": "5",
        "SMALL_VCPU": "0.5",
        "SMALL_MEMORY_MIB": "1024",
        "FULL_VCPU": "2",
        "FULL_MEMORY_MIB": "4096",
    }
    outputs = {
        "SmallMaxBytes": "5",
        "SmallVcpu": "0.5",
        "SmallMemoryMib": "1024",
        "FullVcpu": "2",
        "FullMemoryMib": "4096",
    }
    tiers = Tiers.from_environment(environment)
    assert tiers == Tiers.from_outputs(outputs)
    assert tiers.size_of(tiers.choose(5)) == JobSize(vcpu="0.5", memory_mib=1024)
    assert tiers.size_of(tiers.choose(6)) == JobSize(vcpu="2", memory_mib=4096)
