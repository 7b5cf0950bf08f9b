"""In-place and ``out=`` forms of composites: the result, copied to its destination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ...runtime.dispatch_key import AUTOGRAD_BITS
from ...runtime.grad_mode import grad_disabled, is_grad_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.result_types import named_results
from ..iterator.overlap import assert_no_internal_overlap, check_write_overlap, shares_memory
from ..structured.meta.joining import can_cast
from ..structured.meta_base import out_on_another_device, uncastable_out
from ..structured.resizing import resize_output

if TYPE_CHECKING:
    from ..tensor import Tensor


_PARTS = {"linalg_eigvals": "eigenvalues"}
"""Names in messages of the only result of an operator."""


def check_out(name: str, out: Tensor, result: Tensor, exact: bool = False, part: str = "result") -> None:
    """Raise RuntimeError if a result, named `part`, cannot be written to an ``out=`` tensor.

    `exact` requires equal dtypes.
    """
    if out._spec.device is not result._spec.device:
        raise out_on_another_device(name, result._spec.device, out._spec.device)
    if exact and out._spec.dtype is not result._spec.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result._spec.dtype}, but got {out._spec.dtype} instead"
        )
    if not can_cast(result._spec.dtype, out._spec.dtype):
        if name.startswith(("linalg_", "cholesky")):
            title = name.replace("linalg_", "torch.linalg.")
            raise uncastable_out(title, part, result._spec.dtype, out._spec.dtype)
        raise RuntimeError(
            f"{name}(): result type {result._spec.dtype.scalar_name} can't be cast to the desired output "
            f"type {out._spec.dtype.scalar_name}"
        )
    if result._spec.requires_grad or (out._spec.requires_grad and is_grad_enabled()):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the arguments requires grad."
        )
    assert_no_internal_overlap(out._spec)


def write_out(name: str, out: Tensor, result: Tensor, exact: bool = False, strided: bool = False) -> Tensor:
    """Put a composite's result into an ``out=`` tensor, which is resized to the result's shape if needed.

    With `strided`, a resized tensor also gets the result's strides, as from an operator that declares them.
    """
    check_out(name, out, result, exact)
    spec = result._spec
    resize_output(out, spec.sizes, spec.strides if strided and spec.is_dense() else None)
    return out.copy_(result)


@overload
def out_form(
    name: str, function: Callable[..., Any], *, exact: bool = False, strided: bool = False
) -> Callable[..., Tensor]: ...
@overload
def out_form(
    name: str, function: Callable[..., Any], count: int, exact: bool = False, strided: bool = False
) -> Callable[..., Any]: ...
def out_form(
    name: str,
    function: Callable[..., Any],
    count: int = 1,
    exact: bool = False,
    strided: bool = False,
) -> Callable[..., Any]:
    """Return the ``out=`` form of a composite with `count` results, which takes its outputs last.

    An output may be one of the arguments, but may not partially overlap one. Several outputs are written only if all
    are valid. With `exact` an output must have the result's dtype; otherwise the result must be castable to the
    output's dtype. With `strided`, resized outputs get the results' strides.
    """

    def form(*args: Any) -> Any:
        inputs, outputs = args[:-count], args[-count:]
        check_overlap(inputs, outputs)
        made = function(*inputs)
        results = (made,) if count == 1 else made
        parts = getattr(made, "_fields", (_PARTS.get(name, "result"),) * count)
        for out, result, part in zip(outputs, results, parts, strict=True):
            check_out(name, out, result, exact, part)
        written = [
            write_out(name, out, result, exact, strided) for out, result in zip(outputs, results, strict=True)
        ]
        return written[0] if count == 1 else getattr(made, "_make", tuple)(written)

    return form


def outermost_first(spec: TensorSpec) -> list[int] | None:
    """Return a dense tensor's dimensions in memory order; None if they are in order already, or not dense."""
    if spec.is_contiguous or not spec.is_dense():
        return None
    return sorted(range(spec.ndim), key=lambda d: -spec.strides[d])


def restored(x: Tensor, order: Sequence[int]) -> Tensor:
    """Permute dimensions from that memory order back into their own order."""
    return x.permute([order.index(d) for d in range(len(order))])


def laid_as(x: Tensor, spec: TensorSpec) -> Tensor:
    """Copy a contiguous tensor into the memory layout of `spec`, which has the same sizes, if that layout is dense."""
    order = outermost_first(spec)
    return x if order is None else restored(x.permute(order).contiguous(), order)


def check_overlap(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    for value in inputs:
        for part in value if isinstance(value, list | tuple) else (value,):
            for out in outputs:
                if isinstance(part, TensorImpl) and part is not out and shares_memory(out, part):
                    check_write_overlap(out, part)


def named(base: str, **results: Any) -> Any:
    """Return the results of an operator by their names in its schema."""
    return named_results(base, tuple(results))._make(results.values())


def inplace_form(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the in-place form of a composite."""

    def form(self: Tensor, *args: Any) -> Tensor:
        assert_no_internal_overlap(self._spec)
        check_overlap(args, (self,))
        # Autograd may save the input, and the write would make the saved tensor stale.
        result = function(self.clone() if _is_recorded((self, *args)) else self, *args)
        if result._spec.sizes != self._spec.sizes:
            raise RuntimeError(
                f"output with shape {list(self._spec.sizes)} doesn't match the broadcast shape "
                f"{list(result._spec.sizes)}"
            )
        if not can_cast(result._spec.dtype, self._spec.dtype):
            raise RuntimeError(
                f"result type {result._spec.dtype.scalar_name} can't be cast to the desired output type "
                f"{self._spec.dtype.scalar_name}"
            )
        return self.copy_(result)

    return form


def _is_recorded(values: Sequence[Any]) -> bool:
    if local.excluded & AUTOGRAD_BITS or not any(
        isinstance(value, TensorImpl) and value._spec.requires_grad for value in values
    ):
        return False
    return not grad_disabled or is_grad_enabled()


def owned(x: Tensor) -> Tensor:
    """Return a tensor that owns a result made below autograd, if the last step of its computation was a view."""
    return x if x._view_base is None else type(x).from_data(x._data, x._spec)
