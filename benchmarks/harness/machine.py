"""Say what everything ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

_GIB = 1 << 30


def machine() -> dict[str, str]:
    """Give processor, memory, kernel and Python."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.machine(),
        "processors": str(len(os.sched_getaffinity(0))),
        "memory_gib": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIB:.0f}",
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        "load_before": " ".join(f"{each:.2f}" for each in os.getloadavg()),
    }


def commit() -> str:
    """Give the commit that is measured, with a ``+`` where files differ from it; empty outside a clone."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def _first(file: str, key: str) -> str:
    for line in Path(file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
