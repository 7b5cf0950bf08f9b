"""Shared helpers of the autocast tests: a thread's state, and the count of a call's casts."""

import io
from collections.abc import Callable
from typing import Any

import triten as tt
from triten.runtime.local_dispatch_key_set import local, modes


def state() -> tuple[Any, ...]:
    """Return the thread's modes, keys and autocast settings."""
    return (
        list(modes),
        local.autocast,
        local.included,
        local.excluded,
        [(tt.is_autocast_enabled(d), tt.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        tt.is_autocast_cache_enabled(),
    )


def casts_in(call: Callable[[], object]) -> int:
    """Return the number of casts that a call makes, from the dispatch trace."""
    file = io.StringIO()
    with tt.dispatch.show_trace(file):
        call()
    return sum("[call] op=[aten::_to_copy]" in line for line in file.getvalue().splitlines())
