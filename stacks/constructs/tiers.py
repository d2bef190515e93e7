"""The two job sizes as text: for the functions that submit or report, for the state machine and the outputs (R5)."""

from __future__ import annotations

from stacks.settings import Settings


def tier_values(settings: Settings) -> dict[str, str]:
    """Values by the names of stack outputs and state machine placeholders."""
    return {
        "SmallMaxBytes": str(settings.small_max_bytes),
        "SmallVcpu": f"{settings.small.vcpu:g}",
        "SmallMemoryMib": str(settings.small.memory_mib),
        "FullVcpu": f"{settings.full.vcpu:g}",
        "FullMemoryMib": str(settings.full.memory_mib),
    }


def tier_environment(settings: Settings) -> dict[str, str]:
    """The same values by the names of environment variables."""
    return {
        "SMALL_MAX_BYTES": str(settings.small_max_bytes),
        "SMALL_VCPU": f"{settings.small.vcpu:g}",
        "SMALL_MEMORY_MIB": str(settings.small.memory_mib),
        "FULL_VCPU": f"{settings.full.vcpu:g}",
        "FULL_MEMORY_MIB": str(settings.full.memory_mib),
    }
