"""Processes that wait until all of a group have come."""

from __future__ import annotations

import time

from .errors import DistStoreError
from .process_group import GroupSpec

__all__ = ["meet"]

POLL = 0.002
"""Seconds between two looks whether all processes have come."""


def meet(spec: GroupSpec, name: str) -> None:
    """Wait until all processes of a group have come.

    Raises:
        DistStoreError: some have not within the group's time limit, or one has come twice.
    """
    store, size = spec.store, len(spec.ranks)
    if store.add(f"came/{spec.rank}", 1) > 1:
        raise DistStoreError(
            f"{name}: another process has already joined group {spec.name!r} as rank {spec.rank} of {size}"
        )
    if store.add("came", 1) == size:
        store.set("all came", b"")
    deadline = time.monotonic() + spec.timeout.total_seconds()
    while not store.check(["all came"]):
        if time.monotonic() > deadline:
            missing = [rank for number, rank in enumerate(spec.ranks) if not store.check([f"came/{number}"])]
            raise DistStoreError(
                f"{name}: rank {spec.rank} of group {spec.name!r} waited {spec.timeout.total_seconds():g} s for "
                f"{size} processes; not heard of: rank {', '.join(map(str, missing))}"
            )
        gone = spec.failures.gone(spec.ranks) if spec.failures.size > 1 else None
        if gone is not None and not store.check(["all came"]):
            raise DistStoreError(f"{name}: rank {spec.rank} of group {spec.name!r} waited for others; {gone}")
        time.sleep(POLL)
