"""Context of a running fake kernel (torch/_library/fake_impl.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...runtime.thread_state import inherited


class _Running(threading.local):
    def __init__(self) -> None:
        self.names: list[str] = []


_running = inherited(_Running())


def run_fake(name: str, function: Callable[[], Any]) -> Any:
    """Run an operator's fake kernel, and record its name for `get_ctx`."""
    _running.names.append(name)
    try:
        return function()
    finally:
        _running.names.pop()


def is_running_fake() -> bool:
    """Return whether this thread runs a fake kernel."""
    return bool(_running.names)


def get_ctx() -> None:
    """Return None outside a fake kernel, as `torch.library.get_ctx` does.

    Raises RuntimeError inside one. Its tensors are meta tensors with concrete sizes, which cannot describe a result
    whose size depends on data.

    Example:
        >>> import triten as tt
        >>> tt.library.get_ctx() is None
        True
    """
    if _running.names:
        raise RuntimeError(
            f"{_running.names[-1]}: You're trying to run this operator with meta Tensors, but this operator may "
            "return an output Tensor with data-dependent shape. Meta Tensors don't support operators with outputs "
            "that have data-dependent shapes. If your operator does not return an output with data-dependent shape, "
            "make sure the fake kernel does not call library.get_ctx()."
        )
