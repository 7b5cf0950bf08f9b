"""Number of cores that this process may use: its affinity mask and the CPU quota of its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

CGROUPS = "/proc/self/cgroup"
MOUNT = "/sys/fs/cgroup"


def available_cores(cgroups: str = CGROUPS, mount: str = MOUNT) -> int:
    """Return the number of cores of the affinity mask, or the CPU quota of a control group if it is smaller.

    A quota is rounded up: a process with one and a half cores has two threads.

    Args:
        cgroups: File that names the control groups of the process. Default: that of Linux.
        mount: Folder where control groups are mounted. Default: that of Linux.

    Example:
        >>> available_cores() >= 1
        True
    """
    has_mask = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    for quota, period in _quotas(cgroups, mount):
        if quota > 0 and period > 0:
            cores = min(cores, -(-quota // period))
    return max(cores, 1)


def _quotas(cgroups: str, mount: str) -> Iterator[tuple[int, int]]:
    """Yield the quota and the period of each control group from the process's own to the root, in microseconds.

    In a container, the path that Linux names may be another one than in the mounted folder, whose root then is the
    container's group.
    """
    for line in _read(cgroups).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:  # version 2
            for folder in _folders(mount, path):
                quota, _, period = _read(f"{folder}/cpu.max").strip().partition(" ")
                yield _number(quota), _number(period)
        elif "cpu" in controllers.split(","):  # version 1
            for name in (controllers, "cpu"):
                for folder in _folders(f"{mount}/{name}", path):
                    quota, period = (_read(f"{folder}/cpu.cfs_{kind}_us") for kind in ("quota", "period"))
                    yield _number(quota), _number(period)


def _folders(mount: str, path: str) -> Iterator[str]:
    """Yield the folder of a control group and those above it."""
    parts = [part for part in path.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:count]])


def _read(path: str) -> str:
    """Return a file's text, empty if it cannot be read."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _number(text: str) -> int:
    """Return a whole number, or -1 for other text, such as ``max``."""
    text = text.strip()
    return int(text) if text.isdecimal() else -1
