"""`NestedTensor`: sequences of different lengths in one packed tensor (`torch.nested`, layout ``torch.jagged``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.tensor_function import body_of
from ..dispatch.layers.overrides.rule_table import RuleTable, name_of
from ..dispatch.tensor import Tensor
from ..runtime.layout import jagged
from ..runtime.layout import layout as Layout
from .ragged import NestedSize, Raggedness

JAGGED = RuleTable()
"""What each public call does with jagged tensors; the modules of this package fill it."""


class NestedTensor(Tensor):
    """Batch of sequences of different lengths, stored contiguously in one packed tensor.

    A public call runs calls over the values, whose graph holds the derivatives: `grad`, `grad_fn` and `requires_grad`
    are those of the values. The shape contains a `RaggedSize` for the lengths, which prints as ``j1``.

    Args:
        values: The elements. Dimension `ragged_idx` - 1 is packed.
        raggedness: The division of the packed dimension into sequences.
        ragged_idx: The ragged dimension of the nested tensor; the batch is dimension 0.
    """

    sees_parts = True
    _packed: Tensor
    _raggedness: Raggedness
    _ragged_idx: int

    @staticmethod
    def __new__(cls, values: Tensor, raggedness: Raggedness, ragged_idx: int = 1) -> NestedTensor:
        """Source: torch.nested._internal.nested_tensor.NestedTensor."""
        raggedness = raggedness.to(values.device)
        sizes = (raggedness.batch_size, *values.shape)
        made: NestedTensor = Tensor._make_wrapper_subclass(
            cls, sizes, dtype=values.dtype, device=values.device
        )
        made._packed = values
        made._raggedness = raggedness
        made._ragged_idx = ragged_idx
        return made

    def like(self, values: Tensor, ragged_idx: int | None = None) -> NestedTensor:
        """Return a tensor with the same sequences and other values."""
        if values is self._packed:
            return self
        return NestedTensor(values, self._raggedness, self._ragged_idx if ragged_idx is None else ragged_idx)

    def packed(self) -> NestedTensor:
        """Return the tensor without holes between the sequences."""
        if self._raggedness.lengths is None:
            return self
        values = self._packed.index_select(self._ragged_idx - 1, self._raggedness.kept_positions())
        return NestedTensor(values, self._raggedness.packed(), self._ragged_idx)

    @property
    def shape(self) -> Any:
        """The sizes, with a `RaggedSize` for the ragged dimension."""
        sizes: list[Any] = [self._raggedness.batch_size, *self._packed.shape]
        sizes[self._ragged_idx] = self._raggedness.size
        return NestedSize(sizes)

    def dim(self) -> int:
        """Return the number of dimensions, including the batch."""
        return self._packed.dim() + 1

    ndim = property(dim)
    ndimension = dim

    @property
    def layout(self) -> Layout:
        """``triten.jagged``."""
        return jagged

    @property
    def is_nested(self) -> bool:
        """True."""
        return True

    @property
    def requires_grad(self) -> bool:
        """True if the values require grad."""
        return self._packed.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._packed.requires_grad = value

    @property
    def grad(self) -> Any:
        """The gradient, nested as this tensor is; None where there is none."""
        grad = self._packed.grad
        return None if grad is None else self.like(grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._packed.grad = values_of(value)

    @property
    def grad_fn(self) -> Any:
        """The node that made the values."""
        return self._packed.grad_fn

    @property
    def is_leaf(self) -> bool:
        """True if the values are a leaf."""
        return self._packed.is_leaf

    def values(self) -> Tensor:
        """Return the packed elements as a differentiable view (`torch.Tensor.values`)."""
        return self._packed.view_as(self._packed)

    def offsets(self) -> Tensor:
        """Return the start of each sequence in the packed dimension, and the end of the last one."""
        return self._raggedness.offsets

    def lengths(self) -> Tensor | None:
        """Return the sequences' lengths if there are holes between them, else None."""
        return self._raggedness.lengths

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Pad the sequences to one length; see `tt.nested.to_padded_tensor`."""
        from .padding import to_padded_tensor

        return to_padded_tensor(self, padding, output_size)

    def __repr__(self) -> str:
        grad = ""
        if self.grad_fn is not None:
            grad = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            grad = ", requires_grad=True"
        sizes = ", ".join(map(str, self.shape))
        return (
            f"NestedTensor(size=({sizes}), offsets={self.offsets()}{grad}, contiguous={self.is_contiguous()})"
        )

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __len__(self) -> int:
        return self._raggedness.batch_size

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __reduce_ex__(self, protocol: Any) -> Any:
        leaf = self._packed if self.is_leaf else self._packed.detach()
        return _restored, (leaf, self.offsets(), self.lengths(), self._ragged_idx)

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        from copy import deepcopy

        result: NestedTensor | None = memo.get(id(self))
        if result is None:
            result = memo[id(self)] = NestedTensor(
                deepcopy(self._packed, memo), self._raggedness, self._ragged_idx
            )
        return result

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"{name_of(func)}(): out= is not supported for nested tensors with layout {jagged}"
            )
        rule = JAGGED.find(func)
        if rule is not None:
            return rule(func, args, kwargs)
        body = body_of(func)
        if body is not None:
            return body(*args, **kwargs)
        raise NotImplementedError(f"{name_of(func)}(): not supported for nested tensors with layout {jagged}")

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{func.name()}: not supported for nested tensors with layout {jagged}")


def _restored(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged_idx: int) -> NestedTensor:
    return NestedTensor(values, Raggedness.of(offsets, lengths), ragged_idx)


def values_of(value: Any) -> Any:
    """Replace nested tensors by their values, also inside lists and tuples; return other values unchanged."""
    if isinstance(value, NestedTensor):
        return value._packed
    if isinstance(value, list | tuple) and not isinstance(value, NestedSize):
        return type(value)([values_of(each) for each in value]) if not hasattr(value, "_make") else value
    return value


def nested_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[NestedTensor]:
    """Return the nested tensors among the arguments, also those in lists."""
    values = [*args, *kwargs.values()]
    flat = [each for value in values for each in (value if isinstance(value, list | tuple) else (value,))]
    return [each for each in flat if isinstance(each, NestedTensor)]
