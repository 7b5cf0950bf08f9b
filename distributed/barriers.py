"""Waiting for each other (`torch.distributed.barrier`, `monitored_barrier`)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from .groups import Group, group_or_default, is_member
from .work import Work

__all__ = ["barrier", "monitored_barrier"]

POLL = 0.002
"""Seconds between two looks whether all processes have come."""


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all processes of a group have called it (`torch.distributed.barrier`).

    Args:
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
        device_ids: Ignored; accepted for compatibility with PyTorch.
        timeout: Time limit. Default: the group's timeout.

    Raises:
        DistBackendError: some have not in time.
    """
    if not is_member(group, "barrier"):
        return None
    chosen = group_or_default(group)
    kinds = list(chosen.backends.device_backend_map)
    work = chosen.communicator("cpu" if "cpu" in kinds else kinds[0]).barrier(waits=not async_op)
    if async_op:
        return work
    work.wait(timeout)
    work.synchronize()
    return None


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait as `barrier` does, and report the ranks that do not arrive (`torch.distributed.monitored_barrier`).

    Args:
        group: The group. Default: all ranks.
        timeout: Time limit. Default: the group's timeout.
        wait_all_ranks: If True, report all missing ranks. Otherwise report the first.

    Raises:
        TypeError: `timeout` is not a timedelta.
        RuntimeError: Some ranks have not arrived in time; on rank 0 the error names them.
    """
    if not is_member(group, "monitored_barrier"):
        return
    chosen = group_or_default(group)
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"monitored_barrier: Expected timeout argument to be of type datetime.timedelta, got {timeout} of "
            f"{type(timeout).__name__}"
        )
    spec, store = chosen.spec, chosen.get_group_store()
    limit = (chosen.timeout if timeout is None else timeout).total_seconds()
    chosen.monitored = number = chosen.monitored + 1
    prefix = f"monitored/{number}"
    store.set(f"{prefix}/{spec.rank}", b"")
    deadline = time.monotonic() + limit
    if spec.rank:
        # The first one decides, and may take as long for that as this one has: it gets a second limit.
        while not store.check([f"{prefix}/through"]):
            if store.check([f"{prefix}/failed"]):
                raise RuntimeError(
                    f"monitored_barrier: rank {spec.rank} of group {spec.name!r}: "
                    f"{store.get(f'{prefix}/failed').decode()}"
                )
            if time.monotonic() > deadline + limit:
                raise RuntimeError(
                    f"Rank {spec.rank} successfully reached monitoredBarrier, but received errors while waiting for "
                    f"send/recv from rank 0. Please check rank 0 logs for faulty rank. It waited {2 * limit:g} s in "
                    f"group {spec.name!r}"
                )
            time.sleep(POLL)
        return
    while missing := [rank for rank in range(chosen.size()) if not store.check([f"{prefix}/{rank}"])]:
        if time.monotonic() > deadline:
            named = missing if wait_all_ranks else missing[:1]
            text = (
                f"Rank 0 timed out after {limit:g} s in monitoredBarrier of group {spec.name!r}: rank(s) "
                f"{', '.join(str(spec.ranks[rank]) for rank in named)} failed to pass monitoredBarrier"
            )
            store.set(f"{prefix}/failed", text)
            raise RuntimeError(text)
        time.sleep(POLL)
    store.set(f"{prefix}/through", b"")
