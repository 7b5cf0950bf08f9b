"""Functional forms of views and writes (aten/src/ATen/native/TensorShape.cpp, FunctionalInverses.cpp).

A copy of a view is contiguous, as in PyTorch. A scatter keeps the strides of the tensor that it scatters into. The
functional form of a write makes a copy of the tensor and writes to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.layout import sparse_coo
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import dtype as ScalarType
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..core.overload_packet import packets
from ..generated.functions import empty_like
from ..plans.host_kernel import host_kernel
from ..plans.register import planned_by
from ..structured.meta.views import expand as expanded
from ..structured.meta.views import infer_size
from ..structured.resizing import resize_output
from .forms import check_out
from .views import plan_at_start

if TYPE_CHECKING:
    from ...runtime.generator import Generator
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


def _contiguous(view: Tensor) -> Tensor:
    return view.clone(memory_format=contiguous_format)


def _own(view: Tensor) -> Tensor:
    """Return a view of a hidden copy as a tensor that is not a view."""
    return view.detach()


def view_copy(self: Tensor, size: Sequence[int]) -> Tensor:
    """Return `torch.view_copy`; the sizes need not allow a view, since the elements are copied."""
    sizes = infer_size(size, self._spec.numel)
    return _own(_contiguous(self).view(sizes))


def view_copy_dtype(self: Tensor, dtype: ScalarType) -> Tensor:
    """Return ``view_copy(dtype)``: the bytes as another dtype."""
    return _own(_contiguous(self).view(dtype))


def _plan_strided_copy(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    return plan_at_start(op, key_set, args, "aten::_strided_copy")


@planned_by(_plan_strided_copy)
def as_strided_copy(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    """Return `torch.as_strided_copy`."""
    view = self.as_strided(size, stride, storage_offset)
    result: Tensor = packets["_strided_copy"].call(
        self, view._spec.sizes, view._spec.strides, view.storage_offset() - self.storage_offset()
    )
    return result


@host_kernel("_strided_copy", "_strided_from", "clone")
def _strided_copy(self: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Copy a strided view that begins `offset` elements after the tensor's first."""
    return _contiguous(self._strided_from(size, stride, offset))


def expand_copy(self: Tensor, size: Sequence[int], implicit: bool) -> Tensor:
    """Return `torch.expand_copy`."""
    return _contiguous(self.expand(size, implicit=implicit))


def permute_copy(self: Tensor, dims: Sequence[int]) -> Tensor:
    """Return `torch.permute_copy`."""
    return _contiguous(self.permute(dims))


def transpose_copy(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return `torch.transpose_copy`."""
    return _contiguous(self.transpose(dim0, dim1))


def t_copy(self: Tensor) -> Tensor:
    """Return `torch.t_copy`."""
    return _contiguous(self.t())


def select_copy(self: Tensor, dim: int, index: int) -> Tensor:
    """Return `torch.select_copy`."""
    return _contiguous(self.select(dim, index))


def slice_copy(self: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """Return `torch.slice_copy`."""
    return _contiguous(self.slice(dim, start, end, step))


def squeeze_copy(self: Tensor) -> Tensor:
    """Return `torch.squeeze_copy`."""
    return _contiguous(self.squeeze())


def squeeze_copy_dim(self: Tensor, dim: int | Sequence[int]) -> Tensor:
    """Return `torch.squeeze_copy` of some dimensions."""
    return _contiguous(self.squeeze(dim))


def unsqueeze_copy(self: Tensor, dim: int) -> Tensor:
    """Return `torch.unsqueeze_copy`."""
    return _contiguous(self.unsqueeze(dim))


def alias_copy(self: Tensor) -> Tensor:
    """Return `torch.alias_copy` and `torch.detach_copy`."""
    return _contiguous(self)


def diagonal_copy(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Return `torch.diagonal_copy`."""
    return _contiguous(self.diagonal(offset, dim1, dim2))


def unfold_copy(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return `torch.unfold_copy`."""
    return _contiguous(self.unfold(dimension, size, step))


def unbind_copy(self: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Return `torch.unbind_copy`."""
    return tuple([_contiguous(part) for part in self.unbind(dim)])


def split_copy(self: Tensor, split_size: int, dim: int) -> tuple[Tensor, ...]:
    """Return `torch.split_copy`."""
    return tuple([_contiguous(part) for part in self.split(split_size, dim)])


def split_with_sizes_copy(self: Tensor, split_sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Return `torch.split_with_sizes_copy`."""
    return tuple([_contiguous(part) for part in self.split_with_sizes(split_sizes, dim)])


def _into_several(name: str, views: Callable[..., Any], *, resizes: bool = True) -> Callable[..., None]:
    """Return the ``out=`` form of copies of several views. No output is written unless all are valid."""

    def form(*args: Any) -> None:
        parts, out = views(*args[:-1]), args[-1]
        if len(out) != len(parts):
            raise RuntimeError(
                f"{name}() expected an out= argument of size {len(parts)}, got size {len(out)}"
            )
        for target, part in zip(out, parts, strict=True):
            check_out(name, target, part, exact=True)
            if not resizes:
                expanded(part._spec, target._spec.sizes, False)
        for target, part in zip(out, [_contiguous(part) for part in parts], strict=True):
            if resizes:
                resize_output(target, part._spec.sizes)
            target.copy_(part)

    return form


unbind_copy_out = _into_several("unbind_copy_int_out", lambda self, dim: self.unbind(dim))
split_copy_out = _into_several("split_copy_Tensor_out", lambda self, *rest: self.split(*rest), resizes=False)
split_with_sizes_copy_out = _into_several(
    "split_with_sizes_copy_out", lambda self, *rest: self.split_with_sizes(*rest)
)


def view_as_real_copy(self: Tensor) -> Tensor:
    """Return `torch.view_as_real_copy`."""
    return _contiguous(packets["view_as_real"].call(self))


def view_as_complex_copy(self: Tensor) -> Tensor:
    """Return `torch.view_as_complex_copy`."""
    return _own(packets["view_as_complex"].call(_contiguous(self)))


def _spread(self: Tensor) -> Tensor:
    """Return a copy with the tensor's own strides, including gaps between elements."""
    spec = self._spec
    if spec.overlaps:
        return _contiguous(self)
    return self.new_empty_strided(spec.sizes, spec.strides).copy_(self)


def _scattered(name: str, self: Tensor, part: Tensor, src: Tensor, out: Tensor) -> Tensor:
    if part._spec.sizes != src._spec.sizes:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src._spec.sizes)}, slice size "
            f"= {list(part._spec.sizes)} ({name})"
        )
    part.copy_(src)
    return out


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return `torch.select_scatter`."""
    out = _spread(self)
    return _scattered("select_scatter", self, out.select(dim, index), src, out)


def slice_scatter(
    self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    """Return `torch.slice_scatter`."""
    out = _spread(self)
    return _scattered("slice_scatter", self, out.slice(dim, start, end, step), src, out)


def diagonal_scatter(self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Return `torch.diagonal_scatter`."""
    out = _spread(self)
    return _scattered("diagonal_scatter", self, out.diagonal(offset, dim1, dim2), src, out)


def _plan_strided_scatter(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    return plan_at_start(op, key_set, args, "aten::_strided_scatter", args[1:2])


@planned_by(_plan_strided_scatter)
def as_strided_scatter(
    self: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    """Return `torch.as_strided_scatter`: the view is of the tensor's storage, and must be inside the tensor."""
    own = self.storage_offset()
    offset = 0 if storage_offset is None else storage_offset - own
    result: Tensor = packets["_strided_scatter"].call(self, src, size, stride, offset)
    return result


@host_kernel("_strided_scatter", "_strided_from", "copy_")
def _strided_scatter(
    self: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> Tensor:
    """Return a copy of the tensor with `src` in the strided view that begins `offset` elements after its first."""
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if min(stride, default=0) < 0:
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    out = _spread(self)
    reach = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    extent = sum((n - 1) * s for n, s in zip(out._spec.sizes, out._spec.strides, strict=True))
    if src._spec.numel and (offset < 0 or offset + reach > extent):
        raise RuntimeError(
            f"as_strided_scatter: sizes {list(size)}, strides {list(stride)} and offset {offset} reach beyond the "
            f"elements of self, whose last is {extent} after its first"
        )
    return _scattered("as_strided_scatter", self, out._strided_from(size, stride, offset), src, out)


def copy(self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    """Return ``self.copy_(src)`` as a new tensor."""
    spec = self._spec
    expanded(src._spec, spec.sizes, False)
    if spec.overlaps:
        return empty_like(self, memory_format=contiguous_format).copy_(src, non_blocking)
    return self.new_empty_strided(spec.sizes, spec.strides).copy_(src, non_blocking)


def _restride(self: Tensor, stride: Sequence[int]) -> Tensor:
    """Return the same elements with other strides."""
    return self.new_empty_strided(self._spec.sizes, stride).copy_(self)


def lift_fresh(self: Tensor) -> Tensor:
    """Return a tensor that a program has just created from Python data."""
    return self


def lift_fresh_copy(self: Tensor) -> Tensor:
    """Copy a tensor that a program made from Python data, so that each run gets its own."""
    return self.clone()


def zero(self: Tensor) -> Tensor:
    """Return ``zero_`` as a new tensor."""
    return empty_like(self).zero_()


def _arange(self: Tensor, start: Number, step: Number) -> Tensor:
    """Return ``_arange_`` as a new tensor."""
    result: Tensor = packets["_arange_"].call(empty_like(self), start, step)
    return result


def _linspace(self: Tensor, start: Number, end: Number) -> Tensor:
    """Return ``_linspace_`` as a new tensor."""
    result: Tensor = packets["_linspace_"].call(empty_like(self), start, end)
    return result


def embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Return ``embedding_renorm_`` as a new tensor."""
    result: Tensor = packets["embedding_renorm_"].call(_spread(self), indices, max_norm, norm_type)
    return result


def uniform(self: Tensor, low: float, high: float, generator: Generator | None) -> Tensor:
    """Return ``uniform_`` as a new tensor."""
    return empty_like(self).uniform_(low, high, generator=generator)


def normal_functional(self: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    """Return ``normal_`` as a new tensor."""
    return empty_like(self).normal_(mean, std, generator=generator)


def log_normal(self: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    """Return ``log_normal_`` as a new tensor."""
    return empty_like(self).log_normal_(mean, std, generator=generator)


def cauchy(self: Tensor, median: float, sigma: float, generator: Generator | None) -> Tensor:
    """Return ``cauchy_`` as a new tensor."""
    return empty_like(self).cauchy_(median, sigma, generator=generator)


def exponential(self: Tensor, lambd: float, generator: Generator | None) -> Tensor:
    """Return ``exponential_`` as a new tensor."""
    return empty_like(self).exponential_(lambd, generator=generator)


def geometric(self: Tensor, p: float, generator: Generator | None) -> Tensor:
    """Return ``geometric_`` as a new tensor."""
    return empty_like(self).geometric_(p, generator=generator)


def random(self: Tensor, *bounds: Any) -> Tensor:
    """Return ``random_`` as a new tensor."""
    *limits, generator = bounds
    return empty_like(self).random_(*limits, generator=generator)


def bernoulli_functional(self: Tensor, p: Tensor | float, generator: Generator | None) -> Tensor:
    """Run ``bernoulli_`` out of place: `p` gives the probabilities, `self` the dtype and sizes."""
    return empty_like(self).bernoulli_(p, generator=generator)


def _part_copy(self: Tensor, part: str) -> Tensor:
    """Copy a part of a sparse tensor. PyTorch has no such operator for COO tensors, which raise another error."""
    data = self._data
    if self._spec.layout is sparse_coo and not (part in ("indices", "values") and data.is_coalesced):
        raise NotImplementedError(
            f"Could not run 'aten::{part}_copy' with coordinates: expected a tensor of compressed lines"
            + (", or a coalesced one" if part in ("indices", "values") else "")
        )
    return _contiguous(getattr(self, part)())


def crow_indices_copy(self: Tensor) -> Tensor:
    """Return `torch.crow_indices_copy`."""
    return _part_copy(self, "crow_indices")


def col_indices_copy(self: Tensor) -> Tensor:
    """Return `torch.col_indices_copy`."""
    return _part_copy(self, "col_indices")


def ccol_indices_copy(self: Tensor) -> Tensor:
    """Return `torch.ccol_indices_copy`."""
    return _part_copy(self, "ccol_indices")


def row_indices_copy(self: Tensor) -> Tensor:
    """Return `torch.row_indices_copy`."""
    return _part_copy(self, "row_indices")


def indices_copy(self: Tensor) -> Tensor:
    """Return `torch.indices_copy`."""
    return _part_copy(self, "indices")


def values_copy(self: Tensor) -> Tensor:
    """Return `torch.values_copy`."""
    return _part_copy(self, "values")
