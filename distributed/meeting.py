"""Processes that wait until all of a group have come."""

from __future__ import annotations

import time

from .backend import Backend, BackendConfig
from .errors import DistStoreError
from .process_group import GroupSpec

__all__ = ["meet"]

POLL = 0.002
"""Seconds between two looks whether all processes have come."""
ALL, REFUSED = "all came", "refused"
"""Keys that end the wait: every process has come, or one was refused."""


def meet(spec: GroupSpec, backends: BackendConfig, name: str) -> None:
    """Wait until all ranks of a group have joined.

    The first process leaves its call in the store. The others compare theirs with it before they count as there, so
    that a group with other ranks, another order or other backends on some of them never begins.

    Args:
        spec: the group.
        backends: its backends.
        name: the function that makes it, for errors.

    Raises:
        DistStoreError: some have not come within the group's time limit, one has come twice, or their calls differ.
    """
    store, size = spec.store, len(spec.ranks)
    own = f"{name}(ranks {list(spec.ranks)}, {repr(backends).replace(Backend.GLOO, Backend.MPI)})"
    first_rank, _, call = (
        store.compare_set("call", "", f"{spec.ranks[spec.rank]}:{own}").decode().partition(":")
    )
    if call != own:
        store.set(
            REFUSED,
            f"the calls differ: rank {first_rank}: {call}; rank {spec.ranks[spec.rank]}: {own}. All ranks "
            "of a group must make the same call",
        )
    elif store.add(f"came/{spec.rank}", 1) > 1:
        store.set(REFUSED, f"another process has already joined as rank {spec.rank} of {size}")
    elif store.add("came", 1) == size:
        store.set(ALL, b"")
    deadline = time.monotonic() + spec.timeout.total_seconds()
    while not store.check([ALL]):
        if store.check([REFUSED]):
            raise DistStoreError(
                f"{name}: rank {spec.rank} of group {spec.name!r}: {store.get(REFUSED).decode()}"
            )
        if time.monotonic() > deadline:
            missing = [rank for number, rank in enumerate(spec.ranks) if not store.check([f"came/{number}"])]
            raise DistStoreError(
                f"{name}: rank {spec.rank} of group {spec.name!r} waited {spec.timeout.total_seconds():g} s for "
                f"{size} processes; not heard of: rank {', '.join(map(str, missing))}"
            )
        gone = spec.failures.gone(spec.ranks) if spec.failures.size > 1 else None
        if gone is not None and not store.check([ALL]):
            raise DistStoreError(f"{name}: rank {spec.rank} of group {spec.name!r} waited for others; {gone}")
        time.sleep(POLL)
