"""Pooling made of pooling over two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated.functions import avg_pool2d, max_pool2d_with_indices
from ..structured.register import planned_by


def _plan_max_pool2d(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    both = Dispatcher.singleton().find_schema_or_throw("aten::max_pool2d_with_indices").plan(key_set, args)
    return lambda self: both(self)[0]


@planned_by(_plan_max_pool2d)
def max_pool2d(self: Any, *window: Any) -> Any:
    """`torch.max_pool2d`: the values of `max_pool2d_with_indices`."""
    return max_pool2d_with_indices(self, *window)[0]


def _row(name: str, values: Sequence[int], fill: int, omissible: bool = False) -> tuple[int, ...]:
    """A list for one dimension as one for two, the first of which does nothing."""
    if omissible and len(values) == 0:
        return ()
    if len(values) != 1:
        raise RuntimeError(f"{name}() expected a single value for one dimension, but got {list(values)}")
    return (fill, values[0])


def _check_rank(name: str, self: Any) -> None:
    if self._spec.ndim not in (2, 3):
        raise RuntimeError(f"{name}() Expected 2D or 3D input tensor, but got {list(self.shape)}")


def max_pool1d_with_indices(
    self: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    """Maxima and their indices along the last dimension."""
    name = "max_pool1d"
    _check_rank(name, self)
    values, indices = max_pool2d_with_indices(
        self.unsqueeze(-2),
        _row(name, kernel_size, 1),
        _row(name, stride, 1, True),
        _row(name, padding, 0),
        _row(name, dilation, 1),
        ceil_mode,
    )
    return values.squeeze(-2), indices.squeeze(-2)


def max_pool1d(self: Any, *window: Any) -> Any:
    """`torch.max_pool1d`."""
    return max_pool1d_with_indices(self, *window)[0]


def avg_pool1d(
    self: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Any:
    """`torch.avg_pool1d`."""
    name = "avg_pool1d"
    _check_rank(name, self)
    out = avg_pool2d(
        self.unsqueeze(-2),
        _row(name, kernel_size, 1),
        _row(name, stride, 1, True),
        _row(name, padding, 0),
        ceil_mode,
        count_include_pad,
    )
    return out.squeeze(-2)
