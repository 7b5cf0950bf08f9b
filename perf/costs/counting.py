"""`cost`: a function run on Meta tensors, its operators' bytes and operations added up."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.functional.python_key import TensorDispatchMode
from ...dispatch.functional.pytree import tree_leaves, tree_map
from ...dispatch.generated.functions import empty_strided
from ...dispatch.tensor import Tensor
from ...nn import Module
from ...runtime.device import META
from ...runtime.grad_mode import is_grad_enabled
from .formulas import FREE, OVERWRITING, PICKED, UNTOUCHED, Call, operations, reads_shapes_alone


@dataclass
class OperatorCost:
    """What all calls of one operator took: bytes read and written, floating-point operations."""

    name: str
    calls: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    flops: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class Cost:
    """What a program took: a row for each operator that it called, in the order of the first calls, and the totals."""

    operators: tuple[OperatorCost, ...]

    @property
    def bytes_read(self) -> int:
        """Bytes read by all operators."""
        return sum(row.bytes_read for row in self.operators)

    @property
    def bytes_written(self) -> int:
        """Bytes written by all operators."""
        return sum(row.bytes_written for row in self.operators)

    @property
    def bytes(self) -> int:
        """Bytes moved by all operators."""
        return self.bytes_read + self.bytes_written

    @property
    def flops(self) -> int:
        """Floating-point operations of all operators."""
        return sum(row.flops for row in self.operators)

    @property
    def intensity(self) -> float:
        """Operations for each byte moved: where the program stands on a roofline. 0 where nothing moves."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __str__(self) -> str:
        rows = [*self.operators, OperatorCost("all", sum(row.calls for row in self.operators),
                                              self.bytes_read, self.bytes_written, self.flops)]  # fmt: skip
        width = max(len(row.name) for row in rows)
        lines = [f"{'operator':<{width}}{'calls':>8}{'read':>16}{'written':>16}{'flops':>18}"]
        lines += [
            f"{row.name:<{width}}{row.calls:>8,}{row.bytes_read:>16,}{row.bytes_written:>16,}{row.flops:>18,}"
            for row in rows
        ]
        return "\n".join(lines)


def cost(fn: Callable[..., object], /, *args: Any, **kwargs: Any) -> Cost:
    """Count what `fn(*args, **kwargs)` moves and computes, without computing it.

    The function runs on Meta tensors in the place of the tensors among its arguments (also in lists, tuples and
    dicts), watched below autograd, so that a backward pass inside it counts too; a module is copied to Meta first.
    Nothing is read or changed of what is given.

    Views move nothing; an operator reads each tensor once, of expanded dimensions one element, and writes each result
    once, as if nothing stayed in a cache between two operators. `formulas` has the operations.

    Args:
        fn: a function of tensors, or a module.
        args, kwargs: its arguments; tensors of any device.

    Raises:
        ValueError: if the function reaches a tensor that requires grad and is neither an argument nor a parameter of
            the module: its gradient would be one without values.
        NotImplementedError, RuntimeError: as Meta tensors raise them, for what depends on values, such as `item`.

    Example:
        >>> import triten as tt
        >>> found = tt.perf.cost(tt.addmm, tt.ones(8), tt.ones(4, 16), tt.ones(16, 8))
        >>> found.flops, found.bytes_read, found.bytes_written
        (1056, 800, 128)
        >>> print(tt.perf.cost(lambda x: x.t() + 1.0, tt.ones(2, 3)))
        operator          calls            read         written             flops
        aten::t               1               0               0                 0
        aten::add.Tensor      1              24              24                 6
        all                   2              24              24                 6
    """
    counting = _Counting()
    if isinstance(fn, Module):
        fn = copy.deepcopy(fn).to("meta")
    args, kwargs = tree_map(_on_meta, (args, kwargs))
    with counting:
        fn(*args, **kwargs)
    return Cost(tuple(counting.rows.values()))


def _on_meta(value: Any) -> Any:
    if isinstance(value, Module):
        return copy.deepcopy(value).to("meta")
    if not isinstance(value, Tensor):
        return value
    made = _without_bytes(value)
    return made.requires_grad_() if value.requires_grad else made


def _without_bytes(tensor: Tensor) -> Tensor:
    return empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


class _Counting(TensorDispatchMode):
    """Adds up what passes; tensors of other devices, and factories', become Meta tensors on the way."""

    def __init__(self) -> None:
        self.rows: dict[str, OperatorCost] = {}
        self._taken: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # by identity; the tensor itself keeps its number taken

    def __tensor_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        schema = func._schema
        kwargs = dict(kwargs or {})
        if any(argument.name == "device" for argument in schema.arguments):
            kwargs["device"] = META
        args, kwargs = tree_map(lambda value: self._taken_over(func, value), (tuple(args), kwargs))
        result = func(*args, **kwargs)
        values = func.bind(args, kwargs)
        arguments = {argument.name: value for argument, value in zip(schema.arguments, values, strict=True)}
        self._count(func, arguments, list(_tensors(result)))
        return result

    def _taken_over(self, func: OpOverload, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.device.type == "meta":
            return value
        if value.requires_grad and is_grad_enabled() and func._opname != "detach":
            raise ValueError(
                f"cost(): {func.name()} got a tensor of size {tuple(value.shape)} on {value.device} that requires "
                "grad and is no argument; pass it as one, or the module that owns it as the function"
            )
        if id(value) not in self._taken:
            self._taken[id(value)] = (value, _without_bytes(value))
        return self._taken[id(value)][1]

    def _count(self, func: OpOverload, arguments: dict[str, Any], results: list[Tensor]) -> None:
        row = self.rows.setdefault(func.name(), OperatorCost(func.name()))
        row.calls += 1
        schema = func._schema
        name = func._opname
        is_view = any(
            returned.alias_info is not None and not returned.alias_info.is_write
            for returned in schema.returns
        )
        if is_view or name in FREE:
            return
        row.bytes_read += bytes_read(func, arguments, results)
        row.bytes_written += bytes_written(func, arguments, results)
        row.flops += operations(Call(name.removesuffix("_"), arguments, results, func.tags))


def _tensors(value: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def distinct_bytes(tensor: Tensor) -> int:
    """Bytes of the elements that a tensor has: those of an expanded dimension are one.

    Example:
        >>> import triten as tt
        >>> from triten.perf.costs.counting import distinct_bytes
        >>> distinct_bytes(tt.ones(3, 1).expand(3, 100)), distinct_bytes(tt.ones(4).as_strided((3, 2), (1, 1)))
        (12, 16)
    """
    if 0 in tensor.shape:
        return 0
    pairs = list(zip(tensor.shape, tensor.stride(), strict=True))
    elements = math.prod(size for size, stride in pairs if stride)
    span = 1 + sum((size - 1) * abs(stride) for size, stride in pairs)
    return min(elements, span) * tensor.itemsize


def bytes_read(func: OpOverload, arguments: dict[str, Any], results: list[Tensor]) -> int:
    """Bytes that a call reads: each of its operands once."""
    name = func._opname
    if reads_shapes_alone(name):
        return 0
    read: dict[int, int] = {}
    for index, argument in enumerate(func._schema.arguments):
        written = argument.is_write and (argument.is_out or (index == 0 and name in OVERWRITING))
        if written or _is_unread(func, argument.name, arguments):
            continue
        for tensor in _tensors(arguments[argument.name]):
            read[id(tensor)] = min(
                distinct_bytes(tensor), _picked_bytes(func, argument.name, tensor, arguments, results)
            )
    return sum(read.values())


def _is_unread(func: OpOverload, name: str, arguments: dict[str, Any]) -> bool:
    return name == "self" and arguments.get("beta", 1) == 0 and "beta" in arguments


def _picked_bytes(
    func: OpOverload, name: str, tensor: Tensor, arguments: dict[str, Any], results: list[Tensor]
) -> float:
    source, counted = PICKED.get(func._opname, ("", ""))
    if name != source:
        return math.inf
    like = arguments[counted] if counted else results[0]
    return math.prod(like.shape) * tensor.itemsize if isinstance(like, Tensor) else math.inf


def bytes_written(func: OpOverload, arguments: dict[str, Any], results: list[Tensor]) -> int:
    """Bytes that a call writes: each of its results, or of the operands that it writes to, once."""
    written: dict[int, int] = {}
    for argument in func._schema.arguments:
        if argument.is_write and UNTOUCHED.get(func._opname) != argument.name:
            for tensor in _tensors(arguments[argument.name]):
                written[id(tensor)] = int(
                    min(
                        distinct_bytes(tensor),
                        _picked_bytes(func, argument.name, tensor, arguments, results),
                    )
                )
    returned = [r for r in func._schema.returns if r.alias_info is None]
    if returned:
        kept = results if len(returned) == len(func._schema.returns) else results[-len(returned) :]
        written |= {id(tensor): distinct_bytes(tensor) for tensor in kept}
    return sum(written.values())
