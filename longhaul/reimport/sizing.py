"""The two sizes of importer job and the rule that chooses between them (R5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Tier(Enum):
    """Which of the two job sizes an item gets."""

    SMALL = "small"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class JobSize:
    """What a job asks of Fargate; `vcpu` is a string because Batch wants one ("0.5")."""

    vcpu: str
    memory_mib: int


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """The deployed sizes and the threshold between them."""

    small_max_bytes: int  # 0 switches downsizing off, for empty logs too
    small: JobSize
    full: JobSize

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Tiers:
        """Read SMALL_MAX_BYTES, SMALL_VCPU, SMALL_MEMORY_MIB, FULL_VCPU and FULL_MEMORY_MIB."""
        return cls(
            small_max_bytes=int(environ["SMALL_MAX_BYTES"]),
            small=JobSize(vcpu=environ["SMALL_VCPU"], memory_mib=int(environ["SMALL_MEMORY_MIB"])),
            full=JobSize(vcpu=environ["FULL_VCPU"], memory_mib=int(environ["FULL_MEMORY_MIB"])),
        )

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, str]) -> Tiers:
        """Read the stack outputs SmallMaxBytes, SmallVcpu, SmallMemoryMib, FullVcpu and FullMemoryMib."""
        return cls(
            small_max_bytes=int(outputs["SmallMaxBytes"]),
            small=JobSize(vcpu=outputs["SmallVcpu"], memory_mib=int(outputs["SmallMemoryMib"])),
            full=JobSize(vcpu=outputs["FullVcpu"], memory_mib=int(outputs["FullMemoryMib"])),
        )

    def choose(self, size_bytes: object) -> Tier:
        """Return the tier of a log of that size."""
        return choose_tier(size_bytes, self.small_max_bytes)

    def size_of(self, tier: Tier) -> JobSize:
        """Return what a job of `tier` asks for."""
        return self.small if tier is Tier.SMALL else self.full


def choose_tier(size_bytes: object, small_max_bytes: int) -> Tier:
    """Return the tier of a log: small up to the threshold; full above it and for an unknown size (R5).

    `size_bytes` is whatever stands in the list: anything but a number counts as unknown, as it does in the state
    machine. A threshold of 0 switches downsizing off, for empty logs too.
    """
    if isinstance(size_bytes, bool) or not isinstance(size_bytes, int | float):
        return Tier.FULL
    return Tier.SMALL if small_max_bytes > 0 and size_bytes <= small_max_bytes else Tier.FULL
