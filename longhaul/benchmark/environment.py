"""What is recorded of a host and its software with every attempt (B8)."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

# What the fleet's worker knows of its host, and tells its commands.
HOST, TYPE, ZONE = "LONGHAUL_INSTANCE", "LONGHAUL_INSTANCE_TYPE", "LONGHAUL_ZONE"
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def environment(manifest_sha256: str | None, variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Look at this host. Takes some tenths of a second, so not while anything is measured."""
    return {
        "worker_version": metadata.version("longhaul"),
        "manifest_sha256": manifest_sha256,
        "host": variables.get(HOST) or socket.gethostname(),
        "instance_type": variables.get(TYPE, ""),
        "zone": variables.get(ZONE, ""),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "kernel": platform.release(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "clock_source": _text(_CLOCK),
        "packages": {one.name: one.version for one in sorted(metadata.distributions(), key=lambda one: one.name)},
    }


def versions() -> dict[str, str]:
    """What a manifest says of the software that a queue was planned with."""
    return {"longhaul": metadata.version("longhaul")}


def _cpu() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _memory_bytes() -> int | None:
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
