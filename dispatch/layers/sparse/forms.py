"""In-place and ``out=`` forms of functions that return new sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.layout import strided
from ....runtime.sparse_data import COMPRESSED
from ....runtime.tensor_impl import TensorImpl
from ...iterator.type_promotion import can_cast

Function = Callable[..., Any]


def in_place(name: str, function: Function, resizes: bool = False) -> Function:
    """Return the form that writes to its first argument; if `resizes`, the form may change its sizes."""

    def inplace(self: Any, *rest: Any) -> Any:
        return become(name, self, function(self, *rest), resizes)

    inplace.__module__ = function.__module__
    return inplace


def into_out(name: str, function: Function) -> Function:
    """Return the form that writes to its last argument."""

    def out_form(*args: Any) -> Any:
        first = args[0]
        if isinstance(first, TensorImpl) and all(
            not isinstance(each, TensorImpl) or each._spec.layout is strided for each in args[:-1]
        ):
            raise RuntimeError(
                f"{name}: the result of strided tensors is strided, but out has layout {args[-1]._spec.layout}"
            )
        return become(name, args[-1], function(*args[:-1]), resizes=True)

    out_form.__module__ = function.__module__
    return out_form


def become(name: str, target: Any, result: Any, resizes: bool = False) -> Any:
    """Copy a result into a tensor; a strided tensor is written to.

    Raises RuntimeError for another shape, unless `resizes`, and for a dtype that cannot be cast to the target's.
    """
    spec, result_spec = target._spec, result._spec
    if not can_cast(result_spec.dtype, spec.dtype):
        raise RuntimeError(
            f"{name}: result type {result_spec.dtype.scalar_name} can't be cast to the desired output type "
            f"{spec.dtype.scalar_name}"
        )
    if spec.sizes != result_spec.sizes and not resizes:
        raise RuntimeError(
            f"{name}: output with shape {list(spec.sizes)} doesn't match the broadcast shape {list(result_spec.sizes)}"
        )
    if spec.layout is strided:
        if spec.sizes != result_spec.sizes:
            target.resize_(result_spec.sizes)
        return target.copy_(result if result_spec.layout is strided else result.to_dense())
    if result_spec.layout is not spec.layout:
        raise RuntimeError(f"{name}: expected an output of layout {result_spec.layout}, got {spec.layout}")
    if spec.layout in COMPRESSED and spec.sizes == result_spec.sizes:
        target._data.assign(result._data)
        return target
    if result_spec.dtype is not spec.dtype:
        result = result.to(spec.dtype)
    target._data = result._data
    if spec.sizes != result_spec.sizes:
        target._spec = spec.replace(sizes=result_spec.sizes)
    return target
