"""Pooling composed of 2-D pooling, and of operators that also return indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.cuda.value_reading import may_read_values
from ...runtime.memory_format import channels_last
from ...runtime.scalar_type import int64
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..generated.functions import avg_pool2d, max_pool2d_with_indices
from ..plans.delegated import first_of, plan_of_part
from ..plans.host_kernel import host_kernel
from ..plans.register import planned_by
from ..structured.operand_checks import check_sizes_given
from ..structured.supported_dtypes import check_dtype

if TYPE_CHECKING:
    from ...runtime.tensor_spec import TensorSpec
    from ..tensor import Tensor


def _by_part(name: str, function: Callable[..., Any], alone: bool) -> Planner:
    """Return a planner that plans a call as another operator, with its first result only if `alone`."""

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        part = plan_of_part(op, key_set, args, name, args)
        if part is None:
            return op.rebind(function, args)
        return first_of(part) if alone else part

    return plan


def _max_pool2d(self: Tensor, *window: Any) -> Tensor:
    return max_pool2d_with_indices(self, *window)[0]


@planned_by(_by_part("aten::max_pool2d_with_indices", _max_pool2d, True))
def max_pool2d(self: Tensor, *window: Any) -> Tensor:
    """Compute `torch.max_pool2d`: the values of `max_pool2d_with_indices`."""
    return _max_pool2d(self, *window)


def _row(name: str, values: Sequence[int], fill: int, omissible: bool = False) -> tuple[int, ...]:
    """Extend a list for one dimension to two; the new first dimension has no effect."""
    if omissible and len(values) == 0:
        return ()
    if len(values) != 1:
        raise RuntimeError(f"{name}() expected a single value for one dimension, but got {list(values)}")
    return (fill, values[0])


def _check_rank(name: str, self: Tensor) -> None:
    if self._spec.ndim not in (2, 3):
        raise RuntimeError(f"{name}() Expected 2D or 3D input tensor, but got {list(self.shape)}")


def max_pool1d_with_indices(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """Return the maxima and their indices along the last dimension."""
    name = "max_pool1d"
    _check_rank(name, self)
    values, indices = max_pool2d_with_indices(
        self.unsqueeze(-2),
        _row(name, kernel_size, 1),
        _row(name, stride or kernel_size, 1),
        _row(name, padding, 0),
        _row(name, dilation, 1),
        ceil_mode,
    )
    return values.squeeze(-2), indices.squeeze(-2)


def max_pool1d(self: Tensor, *window: Any) -> Tensor:
    """Compute `torch.max_pool1d`."""
    check_dtype("max_pool1d", self._spec.dtype, self._spec.device)
    return max_pool1d_with_indices(self, *window)[0]


def avg_pool1d(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Compute `torch.avg_pool1d`."""
    name = "avg_pool1d"
    _check_rank(name, self)
    out = avg_pool2d(
        self.unsqueeze(-2),
        _row(name, kernel_size, 1),
        _row(name, stride or kernel_size, 1),
        _row(name, padding, 0),
        ceil_mode,
        count_include_pad,
    )
    return out.squeeze(-2)


def _max_pool3d(self: Tensor, *window: Any) -> Tensor:
    return ops.max_pool3d_with_indices(self, *window)[0]


@planned_by(_by_part("aten::max_pool3d_with_indices", _max_pool3d, True))
def max_pool3d(self: Tensor, *window: Any) -> Tensor:
    """Compute `torch.max_pool3d`: the values of `max_pool3d_with_indices`."""
    return _max_pool3d(self, *window)


def _adaptive_average(
    self: Tensor, output_size: Sequence[int], rank: int, pool: Callable[..., Tensor]
) -> Tensor:
    """Average adaptive windows; a window over everything is a mean."""
    name = f"adaptive_avg_pool{rank}d"
    if len(output_size) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank}")
    if any(n < 0 for n in output_size):
        sizes = ", ".join(map(str, output_size))
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{sizes}}}"
        )
    spec = self._spec
    if _is_mean(spec, output_size, rank):
        out = ops.mean(self, tuple(range(-rank, 0)), keepdim=True)
        if _keeps_channels_last(spec, rank):
            n, c = spec.sizes[:2]
            return out.as_strided((n, c, 1, 1), (c, 1, c, c))
        return out
    return pool(self, output_size)


def _is_mean(spec: TensorSpec, output_size: Sequence[int], rank: int) -> bool:
    whole = all(n == 1 for n in output_size) and spec.ndim in (rank + 1, rank + 2)
    return bool(whole and spec.dtype.is_floating_point and 0 not in spec.sizes[-rank:])


def _keeps_channels_last(spec: TensorSpec, rank: int) -> bool:
    return bool(
        rank == 2 and spec.ndim == 4 and spec.is_contiguous_in(channels_last) and not spec.is_contiguous
    )


def _adaptive_average_of(rank: int) -> Callable[..., Any]:
    """Return the operator over `rank` dimensions, planned as the single operator that it calls."""
    name = f"_adaptive_avg_pool{rank}d"

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        self, output_size = args
        if len(output_size) == rank and min(output_size) >= 0:
            if _is_mean(self._spec, output_size, rank):
                if _keeps_channels_last(self._spec, rank):
                    return op.rebind(pool, args)
                part_args = (self, tuple(range(-rank, 0)), True, None)
                part = plan_of_part(op, key_set, args, "aten::mean.dim", part_args)
            else:
                part = plan_of_part(op, key_set, args, f"aten::{name}", (self, tuple(output_size)))
            if part is not None:
                return part
        return op.rebind(pool, args)

    @planned_by(plan)
    def pool(self: Tensor, output_size: Sequence[int]) -> Tensor:
        return _adaptive_average(self, output_size, rank, getattr(ops, name))

    return pool


adaptive_avg_pool2d = _adaptive_average_of(2)
adaptive_avg_pool3d = _adaptive_average_of(3)


def _check_line(name: str, self: Tensor) -> None:
    if self._spec.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {self._spec.ndim}-dimensional tensor for argument #1 'self' (while "
            f"checking arguments for {name})"
        )


def _output_row(name: str, output_size: Sequence[int]) -> tuple[int, int]:
    """Extend the output size of one dimension to two."""
    if len(output_size) != 1:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(output_size)})")
    return (1, output_size[0])


def adaptive_avg_pool1d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    """Compute `torch.adaptive_avg_pool1d`."""
    name = "adaptive_avg_pool1d"
    _check_line(name, self)
    means: Tensor = adaptive_avg_pool2d(self.unsqueeze(-2), _output_row(name, output_size)).squeeze(-2)
    return means


def adaptive_max_pool1d(self: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Compute `torch.adaptive_max_pool1d`."""
    name = "adaptive_max_pool1d"
    _check_line(name, self)
    sizes = self._spec.sizes
    for d in range(len(sizes) - 2, len(sizes)):
        if sizes[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(sizes)} with dimension {d} being empty"
            )
    values, indices = ops.adaptive_max_pool2d(self.unsqueeze(-2), _output_row(name, output_size))
    return values.squeeze(-2), indices.squeeze(-2)


def _check_unpooled(name: str, self: Tensor, indices: Tensor, rank: int) -> None:
    spec = self._spec
    if indices._spec.dtype is not int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.scalar_name}")
    if spec.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with {spec.ndim} "
            "dimensions."
        )
    if spec.sizes != indices._spec.sizes:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(spec.sizes)}) but got indices "
            f"tensor with shape: {list(indices._spec.sizes)}"
        )
    for d in range(spec.ndim - rank - 1, spec.ndim):
        if not spec.sizes[d]:
            raise RuntimeError(
                f"{name}_forward_out_{spec.device.type}(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {list(spec.sizes)} with dimension {d} being empty."
            )


def _unpooled(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """Scatter each element to its index in a zero plane or volume; for duplicate indices, the last element wins."""
    rank = len(output_size)
    lead = self._spec.sizes[:-rank]
    volume = math.prod(output_size)
    check_sizes_given("max_unpool", "output_size", output_size)
    if volume >= 1 << 63:
        raise RuntimeError(f"max_unpool: output_size {list(output_size)} has too many elements")
    zeros = self.new_zeros((*lead, volume))
    flat = indices.reshape((*lead, math.prod(self._spec.sizes[-rank:])))
    if not self._spec.is_meta and flat._spec.numel and may_read_values(flat._spec.device):
        wrong = ops.logical_or(ops.lt(flat, 0), ops.ge(flat, volume))
        if bool(ops.any(wrong)):
            wrong_index = int(flat.masked_select(wrong).select(0, 0))
            shape = "x".join(map(str, output_size))
            raise RuntimeError(
                f"Found an invalid max index: {wrong_index} (output volumes are of size {shape}"
            )
    scattered = zeros.scatter(-1, flat, self.reshape(flat._spec.sizes))
    # A tensor that owns its memory, not a view of a hidden temporary.
    return scattered.reshape((*lead, *output_size)).detach()


_OF_UNPOOLING = ("scatter.src", "masked_select", "any", "new_zeros")


@host_kernel("max_unpool2d", *_OF_UNPOOLING)
def max_unpool2d(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """Run `torch.nn.functional.max_unpool2d`: scatter elements to the indices from max_pool2d."""
    if len(output_size) != 2:
        raise RuntimeError(
            "There should be exactly two elements (height, width) in output_size, but got "
            f"{len(output_size)} elements."
        )
    _check_unpooled("max_unpooling2d", self, indices, 2)
    check_dtype("max_unpool2d", self._spec.dtype, self._spec.device)
    out = _unpooled(self, indices, output_size)
    return out.contiguous(memory_format=self._spec.suggest_memory_format()) if self._spec.ndim == 4 else out


@host_kernel("max_unpool3d", *_OF_UNPOOLING)
def max_unpool3d(
    self: Tensor, indices: Tensor, output_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Run `torch.nn.functional.max_unpool3d` with an output size."""
    for name, sizes in (("output_size", output_size), ("stride", stride), ("padding", padding)):
        if len(sizes) != 3:
            raise RuntimeError(
                f"There should be exactly three elements (depth, height, width) in {name}, but got: {len(sizes)} "
                "elements."
            )
    _check_unpooled("max_unpooling3d", self, indices, 3)
    if min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    check_dtype("max_unpool3d", self._spec.dtype, self._spec.device)
    return _unpooled(self, indices, output_size)
