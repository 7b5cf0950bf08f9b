"""Meta function of `cat`, and the dtype pairs that ATen can store (ATen/native/TensorShape.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.memory_format import contiguous_strides, strides_for
from ....runtime.scalar_type import bool_
from ....runtime.tensor_spec import TensorSpec
from ...iterator.type_promotion import promote_types
from ..meta_base import MetaBase
from .dims import wrap_dim
from .linalg import check_same_device

if TYPE_CHECKING:
    from ....runtime.device import device as Device
    from ....runtime.scalar_type import dtype as ScalarType


def can_cast(source: ScalarType, target: ScalarType) -> bool:
    """Return True if ATen can store `source` in `target`: complex only in complex, floats not in integers."""
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and (target.is_integral or target is bool_):
        return False
    return source is bool_ or target is not bool_


def cat(meta: MetaBase, tensors: Sequence[TensorSpec], dim: int) -> None:
    """Infer tensors concatenated along `dim`; 1-D empty ones are skipped, dtypes are promoted."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, spec in enumerate(tensors):
        if spec.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    nonempty = [i for i, spec in enumerate(tensors) if spec.sizes != (0,)]
    first = tensors[nonempty[0]] if nonempty else tensors[0]
    d = wrap_dim(dim, first.ndim) if nonempty else 0
    total = 0
    common = tensors[0].dtype
    for spec in tensors:
        if spec.dtype is not common:
            common = promote_types(common, spec.dtype)
        if spec is not first:
            check_same_device("cat", first, spec)
    out_spec = meta.maybe_get_output()
    if out_spec is not None:
        if not can_cast(common, out_spec.dtype):
            raise TypeError(
                f"torch.cat(): input types can't be cast to the desired output type {out_spec.dtype.scalar_name}"
            )
        common = out_spec.dtype
    for position in nonempty:
        spec = tensors[position]
        if spec is first:
            total += first.sizes[d]
            continue
        if spec.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {spec.ndim}"
            )
        for axis, (have, expected) in enumerate(zip(spec.sizes, first.sizes, strict=True)):
            if axis != d and have != expected:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {expected} but got "
                    f"size {have} "
                    f"for tensor number {position} in the list."
                )
        total += spec.sizes[d]
    sizes = (*first.sizes[:d], total, *first.sizes[d + 1 :])
    formats = {tensors[i].suggest_memory_format() for i in nonempty}
    strides = strides_for(formats.pop(), sizes) if len(formats) == 1 else contiguous_strides(sizes)
    meta.extra["kept"] = tuple(nonempty)
    meta.extra["dim"] = d
    meta.extra["apart_from"] = ("tensors",)
    meta.set_output_raw_strided(0, sizes, strides, dtype=common, device=first.device)
    if len(nonempty) == len(tensors) and all(s.is_contiguous and s.dtype is common for s in tensors):
        meta.rule = _joined(first.ndim, d, common, first.device)


def _joined(
    rank: int, d: int, dtype: ScalarType, device: Device
) -> Callable[[Sequence[Any]], TensorSpec | None]:
    """Return a function from a call's arguments to the result of joining contiguous tensors of one dtype and rank."""

    def rule(args: Sequence[Any]) -> TensorSpec | None:
        tensors = args[0]
        sizes = tensors[0].sizes
        if len(sizes) != rank:
            return None
        total, head, tail = 0, sizes[:d], sizes[d + 1 :]
        for spec in tensors:
            each = spec.sizes
            if len(each) != rank or each[:d] != head or each[d + 1 :] != tail:
                return None
            total += each[d]
        if rank == 1 and 0 in [spec.numel for spec in tensors]:
            return None
        return TensorSpec.contiguous((*head, total, *tail), dtype, device)

    return rule
