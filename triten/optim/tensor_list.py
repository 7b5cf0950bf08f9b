"""Lists of tensors with the methods of a tensor: each method is one foreach operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.functions.foreach import FOREACH
from ..dispatch.tensor import Tensor


class TensorList:
    """Tensors of a device, with the methods of `Tensor` that updates call, over `tt._foreach_*`.

    The other operand is a number, or a list of as many tensors.

    Example:
        >>> import triten as tt
        >>> from triten.optim.tensor_list import TensorList
        >>> pair = TensorList([tt.ones(2), tt.zeros(1)])
        >>> [t.tolist() for t in (pair * 2 + 1).tensors]
        [[3.0, 3.0], [1.0]]
    """

    __slots__ = ("tensors",)

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)

    def _made(self, name: str, *operands: Any, **options: Any) -> TensorList:
        operand_lists = [each.tensors if isinstance(each, TensorList) else each for each in operands]
        return TensorList(FOREACH[f"_foreach_{name}"](self.tensors, *operand_lists, **options))

    def _written(self, name: str, *operands: Any, **options: Any) -> TensorList:
        operand_lists = [each.tensors if isinstance(each, TensorList) else each for each in operands]
        FOREACH[f"_foreach_{name}_"](self.tensors, *operand_lists, **options)
        return self

    def is_complex(self) -> bool:
        """Return False: optimizers step complex tensors one by one."""
        return False

    def __neg__(self) -> TensorList:
        return self._made("neg")

    def __add__(self, other: Any) -> TensorList:
        return self._made("add", other)

    def __sub__(self, other: Any) -> TensorList:
        return self._made("sub", other)

    def __mul__(self, other: Any) -> TensorList:
        return self._made("mul", other)

    def __truediv__(self, other: Any) -> TensorList:
        return self._made("div", other)

    def __rtruediv__(self, other: float) -> TensorList:
        return self._made("reciprocal")._written("mul", other)

    def abs(self) -> TensorList:
        return self._made("abs")

    def sqrt(self) -> TensorList:
        return self._made("sqrt")

    def maximum(self, other: TensorList) -> TensorList:
        return self._made("maximum", other)

    def add(self, other: Any, *, alpha: float = 1) -> TensorList:
        return self._made("add", other, alpha=alpha)

    def addcmul(self, tensor1: TensorList, tensor2: TensorList, *, value: float = 1) -> TensorList:
        return self._made("addcmul", tensor1, tensor2, value=value)

    def add_(self, other: Any, *, alpha: float = 1) -> TensorList:
        return self._written("add", other, alpha=alpha)

    def sub_(self, other: Any) -> TensorList:
        return self._written("sub", other)

    def mul_(self, other: Any) -> TensorList:
        return self._written("mul", other)

    def addcmul_(self, tensor1: TensorList, tensor2: TensorList, *, value: float = 1) -> TensorList:
        return self._written("addcmul", tensor1, tensor2, value=value)

    def addcdiv_(self, tensor1: TensorList, tensor2: TensorList, *, value: float = 1) -> TensorList:
        return self._written("addcdiv", tensor1, tensor2, value=value)

    def lerp_(self, end: TensorList, weight: float) -> TensorList:
        return self._written("lerp", end, weight)

    def copy_(self, source: TensorList) -> TensorList:
        return self._written("copy", source)
