"""Operators over lists of tensors (`torch._foreach_add` and similar), as optimizers of other packages call them.

Each one calls its operator for every tensor of the list; the tables below map the names. On CUDA, those of `TOGETHER`
make one launch per dtype instead, with the same results, under the conditions of `together.py`. Euclidean norms of
small tensors are one call on the CPU, too. Functional forms return a tuple. Forms whose names end in an underscore
write to the tensors and return the list. Further list arguments must have the length of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...runtime.grad_mode import is_inference_mode_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from ..core.foreach_schemas import BINARY, TERNARY, UNARY
from ..core.mode_stack import sees_whole, stack
from ..core.op_overload import OpOverloadGroup
from ..core.tensor_function import overridable
from ..generated import functions as _ops
from ..iterator.type_promotion import can_cast
from ..structured.meta.foreach import ORDERS, TOGETHER
from .together import go_together

if TYPE_CHECKING:
    from ..tensor import Tensor

Tensors = Sequence["Tensor"]
ForeachFunction = Callable[..., Sequence["Tensor"]]

_NUMBERS_TOO = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Operators for numbers, if the named operator accepts only tensors."""


class _WholeCalls(threading.local):
    """The number of calls of this thread that modes have seen whole, and that are being made of their parts."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Return a context in which a call is made of its parts."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


whole_calls = inherited(_WholeCalls())


def _is_seen_whole() -> bool:
    """Return whether a mode that sees the operators PyTorch dispatches must see this call."""
    return not whole_calls.depth and sees_whole()


def _whole(name: str, tensors: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Call the operator of a function, for a mode to see."""
    made = OpOverloadGroup(f"aten::{name}")(tensors, *args, **kwargs)
    return tensors if name.endswith("_") else tuple(made)


def _tensors(name: str, argument: str, position: int, value: object) -> list[Tensor]:
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be tuple of Tensors, not "
            f"{type(value).__name__}"
        )
    for index, each in enumerate(value):
        if not isinstance(each, TensorImpl):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}): expected Tensor as element {index}, but got "
                f"{type(each).__name__}"
            )
    if not value:
        raise RuntimeError(f"Tensor list must have at least one tensor. ({name} got an empty list.)")
    return list(value)


def _others(name: str, tensors: Sequence[object], value: Any) -> list[Any]:
    """Return one operand for each tensor: a list's elements, or the same value for all."""
    if isinstance(value, list | tuple):
        if len(value) != len(tensors):
            if value and isinstance(value[0], TensorImpl):
                raise RuntimeError(
                    f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(value)}"
                )
            raise RuntimeError(
                "Tensor list must have same number of elements as scalar list. "
                f"({name} got {len(tensors)} and {len(value)}.)"
            )
        return list(value)
    if isinstance(value, TensorImpl) and value.ndim:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {value.ndim} dimensions and {value.numel()} elements."
        )
    return [value] * len(tensors)


def _results(name: str, made: Sequence[Tensor], tensors: Tensors) -> Sequence[Tensor]:
    return tensors if name.endswith("_") else tuple(made)


def _named(name: str, body: ForeachFunction, summary: str) -> ForeachFunction:
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{summary} (`torch.{name}`)."
    return overridable(body)


def _method(tensor: Any, operator: str) -> Any:
    if operator not in ("maximum_", "minimum_"):
        return getattr(tensor, operator)

    def inplace(other: Any) -> Any:  # these operators have no in-place form
        result = getattr(tensor, operator[:-1])(other)
        if not can_cast(result.dtype, tensor.dtype):
            raise RuntimeError(
                f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
                f"{tensor.dtype.scalar_name} in {operator}"
            )
        return tensor.copy_(result)

    return inplace


def _at_once(
    name: str,
    operator: str,
    tensors: list[Tensor],
    lists: Sequence[list[Any]] = (),
    number: Any = None,
    element: Any = None,
) -> Sequence[Tensor] | None:
    """Return the results of one launch per dtype; None if the tensors do not qualify."""
    if operator not in TOGETHER or not (number is None or number.__class__ in (int, float)):
        return None
    if not go_together(tensors, *lists, *(() if element is None else ([element],))):
        return None
    seconds, thirds = (*lists, [], [])[:2]
    if name.endswith("_"):
        _ops._multi_tensor_pointwise_(tensors, operator, seconds, thirds, number, element)
        return tensors
    if is_inference_mode_enabled():  # its results are inference tensors
        return None
    return tuple(_ops._multi_tensor_pointwise(tensors, operator, seconds, thirds, number, element))


def _same_number(values: Sequence[Any]) -> Any:
    """Return the number that all values equal; None if they differ."""
    first = values[0]
    if first.__class__ not in (int, float):
        return None
    return first if all(each.__class__ is first.__class__ and each == first for each in values) else None


def unary(operator: str) -> ForeachFunction:
    """Return the list form of a unary operator, functional or in-place."""
    name = f"_foreach_{operator}"

    plain = operator.rstrip("_")

    def body(self: Tensors) -> Sequence[Tensor]:
        if stack.modes and _is_seen_whole():
            return _whole(name, self)
        tensors = _tensors(name, "self", 1, self)
        made = _at_once(name, plain, tensors)
        if made is None:
            made = [_method(t, operator)() for t in tensors]
        return _results(name, made, self)

    return _named(name, body, f"`{operator}` of each tensor of a list")


def binary(operator: str) -> ForeachFunction:
    """Return the list form of an operator of a tensor and another tensor or a number."""
    name = f"_foreach_{operator}"
    plain = operator.rstrip("_")
    number_operator = _NUMBERS_TOO.get(plain, plain)
    with_number = number_operator + operator.removeprefix(plain)

    def together(
        tensors: list[Tensor], other: Any, operands: list[Any], alpha: Any
    ) -> Sequence[Tensor] | None:
        if isinstance(other, TensorImpl):
            return _at_once(name, plain, tensors, element=other) if alpha is None else None
        if isinstance(operands[0], TensorImpl):
            is_list = all(isinstance(each, TensorImpl) for each in operands)
            return _at_once(name, plain, tensors, (operands,), alpha) if is_list else None
        number = _same_number(operands)
        return None if number is None else _at_once(name, number_operator, tensors, number=number)

    def body(self: Any, other: Any, *, alpha: Any = None) -> Sequence[Tensor]:
        if stack.modes and _is_seen_whole():
            return _whole(name, self, other, **({} if alpha is None else {"alpha": alpha}))
        if plain == "pow" and not isinstance(self, list | tuple | TensorImpl):
            exponents = _tensors(name, "exponent", 2, other)
            return tuple(_ops.pow(self, each) for each in exponents)
        tensors = _tensors(name, "self", 1, self)
        operands = _others(name, tensors, other)
        scale = {}
        if alpha is not None:
            if plain not in ("add", "sub") or not isinstance(operands[0], TensorImpl):
                raise TypeError(
                    f"{name}(): argument 'alpha' is for tensors that are added or subtracted alone"
                )
            scale = {"alpha": alpha}
        made = together(tensors, other, operands, alpha)
        if made is None:
            made = [
                _method(t, operator if isinstance(each, TensorImpl) else with_number)(each, **scale)
                for t, each in zip(tensors, operands, strict=True)
            ]
        return _results(name, made, self)

    return _named(name, body, f"`{operator}` of each tensor of a list and another tensor or a number")


def ternary(operator: str) -> ForeachFunction:
    """Return the form of `addcmul` or `addcdiv` over three lists."""
    name = f"_foreach_{operator}"
    plain = operator.rstrip("_")

    def body(
        self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Any = 1, *, value: Any = 1
    ) -> Sequence[Tensor]:
        if stack.modes and _is_seen_whole():
            return _whole(
                name, self, tensor1, tensor2, value if isinstance(scalars, int) and scalars == 1 else scalars
            )
        tensors = _tensors(name, "self", 1, self)
        first = _others(name, tensors, _tensors(name, "tensor1", 2, tensor1))
        second = _others(name, tensors, _tensors(name, "tensor2", 3, tensor2))
        supplied: Any = value if isinstance(scalars, int) and scalars == 1 else scalars
        numbers: Any = supplied
        if isinstance(supplied, TensorImpl):
            numbers = numbers.tolist()
        every = _others(name, tensors, numbers)
        same = _same_number(every)
        made = None if same is None else _at_once(name, plain, tensors, (first, second), same)
        if made is None:
            made = [
                _method(t, operator)(a, b, value=number)
                for t, a, b, number in zip(tensors, first, second, every, strict=True)
            ]
        return _results(name, made, self)

    return _named(name, body, f"`{operator}` of the tensors of three lists")


def lerp(operator: str) -> ForeachFunction:
    """Return the list form of `lerp`, whose weights are a list of tensors or numbers, or one number."""
    name = f"_foreach_{operator}"

    def body(self: Tensors, tensors1: Tensors, weight: Any) -> Sequence[Tensor]:
        if stack.modes and _is_seen_whole():
            return _whole(name, self, tensors1, weight)
        tensors = _tensors(name, "self", 1, self)
        ends = _others(name, tensors, _tensors(name, "tensors1", 2, tensors1))
        weights = _others(name, tensors, weight)
        if all(isinstance(each, TensorImpl) for each in weights):
            made = _at_once(name, "lerp", tensors, (ends, weights))
        else:
            number = _same_number(weights)
            made = None if number is None else _at_once(name, "lerp", tensors, (ends,), number)
        if made is None:
            made = [_method(t, operator)(end, w) for t, end, w in zip(tensors, ends, weights, strict=True)]
        return _results(name, made, self)

    return _named(name, body, f"`{operator}` between the tensors of two lists")


@overridable
def _foreach_norm(self: Tensors, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the norm of each tensor of a list (`torch._foreach_norm`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_norm", self, ord, dtype)
    tensors = _tensors("_foreach_norm", "self", 1, self)
    order = ORDERS.get(ord) if dtype is None and len(tensors) > 1 else None
    if (
        order is not None
        and not is_inference_mode_enabled()
        and (go_together(tensors) or (order == "2" and go_together(tensors, on="cpu")))
    ):
        return tuple(_ops._multi_tensor_norm(tensors, order))
    return tuple(_ops.linalg_vector_norm(t, ord, dtype=dtype) for t in tensors)


@overridable
def _foreach_powsum(self: Tensors, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the sum of powers of absolute values of each tensor of a list (`torch._foreach_powsum`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_powsum", self, ord, dtype)
    return tuple(
        _ops.sum(_ops.pow(_ops.abs(t), ord), dtype=dtype)
        for t in _tensors("_foreach_powsum", "self", 1, self)
    )


@overridable
def _foreach_max(self: Tensors) -> tuple[Tensor, ...]:
    """Return the maximum of each tensor of a list (`torch._foreach_max`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_max", self)
    return tuple(_ops.max(t) for t in _tensors("_foreach_max", "self", 1, self))


@overridable
def _foreach_mm(self: Tensors, mat2: Tensors) -> tuple[Tensor, ...]:
    """Return the pairwise matmuls of the tensors of two lists (`torch._foreach_mm`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_mm", self, mat2)
    tensors = _tensors("_foreach_mm", "self", 1, self)
    return tuple(_ops.mm(a, b) for a, b in zip(tensors, _others("_foreach_mm", tensors, mat2), strict=True))


@overridable
def _foreach_clone(self: Tensors, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """Return a copy of each tensor of a list (`torch._foreach_clone`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_clone", self, memory_format=memory_format)
    return tuple(
        _ops.clone(t, memory_format=memory_format) for t in _tensors("_foreach_clone", "self", 1, self)
    )


@overridable
def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> Tensors:
    """Copy the elements of another list's tensors into a list's tensors (`torch._foreach_copy_`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_copy_", self, src, non_blocking)
    tensors = _tensors("_foreach_copy_", "self", 1, self)
    sources = _others("_foreach_copy_", tensors, _tensors("_foreach_copy_", "src", 2, src))
    if _at_once("_foreach_copy_", "copy", tensors, (sources,)) is None:
        for target, source in zip(tensors, sources, strict=True):
            target.copy_(source, non_blocking)
    return self


@overridable
def _foreach_zero_(self: Tensors) -> Tensors:
    """Fill each tensor of a list with zeros (`torch._foreach_zero_`)."""
    if stack.modes and _is_seen_whole():
        return _whole("_foreach_zero_", self)
    tensors = _tensors("_foreach_zero_", "self", 1, self)
    if _at_once("_foreach_zero_", "fill", tensors, number=0) is None:
        for each in tensors:
            each.zero_()
    return self


FOREACH: dict[str, Callable[..., Any]] = {
    f"_foreach_{operator}{form}": make(f"{operator}{form}")
    for make, operators in ((unary, UNARY), (binary, BINARY), (ternary, TERNARY), (lerp, ("lerp",)))
    for operator in operators
    for form in ("", "_")
} | {
    each.__name__: each
    for each in (
        _foreach_norm, _foreach_powsum, _foreach_max, _foreach_mm, _foreach_clone, _foreach_copy_, _foreach_zero_,
    )
}  # fmt: skip
"""Every function over lists, by its public name."""
