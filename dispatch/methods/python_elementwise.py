"""`Tensor.apply_` and similar methods: a Python function called for every element
(torch/csrc/utils/tensor_apply.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class PythonElementwiseMethods(_Base):
    """Mixin of `Tensor`: CPU tensors only, at Python's speed."""

    __slots__ = ()

    @api_boundary
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Replace each element by a Python function of it (`torch.Tensor.apply_`).

        Args:
            callable: Called with each element as a Python number; it returns a number.

        Returns:
            The tensor itself.

        Raises:
            TypeError: The tensor is not on the CPU, or the function does not return a number.
            RuntimeError: The tensor requires grad.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.0, -2.0]).apply_(abs)
            tensor([1., 2.])
        """
        return _replaced("apply_", self, (), callable)  # type: ignore[arg-type]

    @api_boundary
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Replace each element by a Python function of it and another tensor's element (`torch.Tensor.map_`).

        Args:
            tensor: The other tensor, of the same dtype and of a shape that broadcasts to this one's.
            callable: Called with two numbers, this tensor's element first; it returns a number.

        Returns:
            The tensor itself.

        Raises:
            TypeError: A tensor is not on the CPU, the dtypes differ, or the function does not return a number.
            RuntimeError: A tensor requires grad.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.0, 5.0]).map_(tt.tensor([3.0]), max)
            tensor([3., 5.])
        """
        return _replaced("map_", self, (tensor,), callable)  # type: ignore[arg-type]

    @api_boundary
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
        """Replace each element by a Python function of it and two tensors' elements (`torch.Tensor.map2_`).

        Args:
            x: A tensor of the same dtype and of a shape that broadcasts to this one's.
            y: Another such tensor.
            callable: Called with three numbers, this tensor's element first, then `x`'s and `y`'s; it returns a number.

        Returns:
            The tensor itself.

        Raises:
            TypeError: A tensor is not on the CPU, the dtypes differ, or the function does not return a number.
            RuntimeError: A tensor requires grad.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).map2_(tt.tensor([2.0, 3.0]), tt.tensor(4.0), lambda a, b, c: a + b * c)
            tensor([ 9., 13.])
        """
        return _replaced("map2_", self, (x, y), callable)  # type: ignore[arg-type]


def _replaced(name: str, tensor: Tensor, operands: tuple[Any, ...], function: Callable[..., Any]) -> Tensor:
    spec = tensor._spec
    for other in (tensor, *operands):
        if not isinstance(other, TensorImpl):
            raise TypeError(f"{name}(): expected a Tensor, got {type(other).__name__}")
        other_spec = other._spec
        if other_spec.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
        if other_spec.device.type not in ("cpu", "meta"):
            raise TypeError(f"{name} is only implemented on CPU tensors")
        if other_spec.dtype is not spec.dtype:
            raise TypeError(f"{name}: expected dtype {spec.dtype}, got {other_spec.dtype}")
    if spec.device.type == "meta":
        return tensor
    columns = [other.expand(spec.sizes).flatten().tolist() for other in (tensor, *operands)]
    values = [function(*elements) for elements in zip(*columns, strict=True)]
    for value in values:
        if not isinstance(value, int | float | complex):
            raise TypeError(f"{name}: must be a number, not {type(value).__name__}")
    if not values:
        return tensor
    keeps_values = spec.dtype.is_floating_point or spec.dtype.is_complex or spec.dtype.name == "bool"
    made = tensor.new_tensor(values if keeps_values else [int(value.real) for value in values])
    return tensor.copy_(made.view(spec.sizes))
