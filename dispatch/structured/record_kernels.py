"""Which kernels run, and on which dtype (ATen/Dispatch.h, RECORD_KERNEL_FUNCTION_DTYPE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...runtime.scalar_type import dtype as ScalarType
from ..core.dispatcher import Dispatcher
from .stub import recorders


@contextmanager
def record_kernels() -> Iterator[list[tuple[str, ScalarType | None]]]:
    """Record the kernels that any thread runs in the block, as a list of (name, dtype), in order.

    The name is the one in PyTorch's errors, such as ``add_cpu``. The dtype is the one that selected the kernel. Plans
    are rebuilt at its start and end, so that calls pay for recording only while it lasts.

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.structured.record_kernels import record_kernels
        >>> with record_kernels() as seen:
        ...     total = (tt.ones(2, dtype=tt.int32) + 0.5).sum()
        >>> seen
        [('add_cpu', triten.float32), ('sum_cpu', triten.float32)]
    """
    records: list[tuple[str, ScalarType | None]] = []

    def record(name: str, dtype: ScalarType | None, function: Callable[..., Any]) -> Callable[..., Any]:
        ran = (name, dtype)

        def recorded(*data: Any) -> Any:
            records.append(ran)
            return function(*data)

        return recorded

    recorders.append(record)
    Dispatcher.singleton().forget_all()
    try:
        yield records
    finally:
        recorders.remove(record)
        Dispatcher.singleton().forget_all()
