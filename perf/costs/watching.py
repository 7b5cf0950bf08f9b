"""Tracing of a program on Meta tensors: each operator below autograd is passed to a callback.

`MetaCopies` creates the program's inputs: tensors without bytes for tensors, modules and optimizers.
`Watching` is the mode in which the program runs. Neither keeps a tensor alive that the program has dropped,
so a callback can count live bytes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.core.operator_entry import trials
from ...dispatch.generated.functions import empty_strided
from ...dispatch.layers.python_key import TensorDispatchMode
from ...dispatch.layers.pytree import tree_leaves, tree_map
from ...dispatch.tensor import Tensor
from ...nn import Module, Parameter
from ...optim import Optimizer
from ...runtime.data_ptr import DataPtr
from ...runtime.device import META
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.storage import root_of
from .formulas import FREE, OVERWRITING, PICKED, UNTOUCHED, Call, operations, reads_shapes_alone


class Work(NamedTuple):
    """Work of one call: bytes read and written, floating-point operations."""

    bytes_read: int = 0
    bytes_written: int = 0
    flops: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.bytes_read + self.bytes_written


class Seen(NamedTuple):
    """One call: the overload, its arguments by name, the tensors it gave, whether it only looks (a view), its work."""

    func: OpOverload
    arguments: Mapping[str, Any]
    results: Sequence[Tensor]
    is_free: bool
    work: Work


class Watching(TensorDispatchMode):
    """Shows what passes to `watch`; tensors of other devices, and factories', become Meta tensors on the way.

    Raises ValueError, naming `caller`, for a tensor from outside whose gradient would be one without values.
    """

    sees_parts = True

    def __init__(self, caller: str, watch: Callable[[Seen], None]) -> None:
        self._caller = caller
        self._watch = watch
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
        if trials.depth:
            return result
        values = func.bind(args, kwargs)
        arguments = {argument.name: value for argument, value in zip(schema.arguments, values, strict=True)}
        results = list(tensors_of(result))
        self._watch(Seen(func, arguments, results, is_free(func), work_of(func, arguments, results)))
        return result

    def _taken_over(self, func: OpOverload, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.device.type == "meta":
            return value
        if value.requires_grad and is_grad_enabled() and func._opname != "detach":
            raise ValueError(
                f"{self._caller}(): {func.name()} got a tensor of size {tuple(value.shape)} on {value.device} that "
                "requires grad and is no argument; pass it as one, or the module that owns it as the function"
            )
        if id(value) not in self._taken:
            self._taken[id(value)] = (value, without_bytes(value))
        return self._taken[id(value)][1]


class MetaCopies:
    """Stand-ins for a program's arguments, also in lists, tuples and dicts: what is given stays as it is.

    A tensor that is given twice, or is a module's parameter and an optimiser's, has one stand-in; stand-ins of tensors
    that share memory share their storage. Gradients that parameters have already are left out.
    """

    def __init__(self) -> None:
        self._memo: dict[int, Any] = {}
        self._storages: dict[int, DataPtr] = {}
        self._originals: list[Any] = []  # keep these alive, so that their ids are not reused

    def of(self, value: Any) -> Any:
        """Replace the tensors in a value by Meta copies."""
        return tree_map(self._copied, value)

    @property
    def tensors(self) -> list[Tensor]:
        """All stand-ins."""
        return [made for made in self._memo.values() if isinstance(made, Tensor)]

    def _copied(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._stand_in(value)
        if isinstance(value, Module):
            for tensor in (*value.parameters(), *value.buffers()):
                self._stand_in(tensor)
        elif isinstance(value, Optimizer):
            for group in value.param_groups:
                for tensor in group["params"]:
                    self._stand_in(tensor)
            for tensor in tensors_of(list(value.state.values())):
                self._stand_in(tensor)
        else:
            return value
        self._originals.append(value)
        return copy.deepcopy(value, self._memo)

    def _stand_in(self, tensor: Tensor) -> Tensor:
        copy: Tensor | None = self._memo.get(id(tensor))
        if copy is None:
            made = without_bytes(tensor)
            self._share(tensor, made)
            if isinstance(tensor, Parameter):
                made = Parameter(made, tensor.requires_grad)
            elif tensor.requires_grad:
                made.requires_grad_()
            copy = self._memo[id(tensor)] = made
            self._originals.append(tensor)
        return copy

    def _share(self, tensor: Tensor, made: Tensor) -> None:
        root = root_of(tensor._data)
        storage = self._storages.setdefault(id(root), DataPtr(0, root.nbytes, META))
        offset = tensor.storage_offset() * tensor.itemsize
        made._data = storage.offset_by(offset) if offset else storage


def without_bytes(tensor: Tensor) -> Tensor:
    """Return a Meta tensor of the same sizes, strides and dtype."""
    return empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in lists, tuples and dicts."""
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def is_free(func: OpOverload) -> bool:
    """Return True if an operator neither reads nor writes elements: a view, or an uninitialized allocation."""
    return func._opname in FREE or any(
        returned.alias_info is not None and not returned.alias_info.is_write
        for returned in func._schema.returns
    )


def work_of(func: OpOverload, arguments: Mapping[str, Any], results: Sequence[Tensor]) -> Work:
    """Return the work of a call, from the shapes of its operands and results."""
    if is_free(func):
        return Work()
    return Work(
        bytes_read(func, arguments, results),
        bytes_written(func, arguments, results),
        operations(Call(func._opname.removesuffix("_"), arguments, results, func.tags)),
    )


def distinct_bytes(tensor: Tensor) -> int:
    """Bytes of the elements that a tensor has: those of an expanded dimension are one.

    Example:
        >>> import triten as tt
        >>> from triten.perf.costs.watching import distinct_bytes
        >>> distinct_bytes(tt.ones(3, 1).expand(3, 100)), distinct_bytes(tt.ones(4).as_strided((3, 2), (1, 1)))
        (12, 16)
    """
    if 0 in tensor.shape:
        return 0
    pairs = list(zip(tensor.shape, tensor.stride(), strict=True))
    elements = math.prod(size for size, stride in pairs if stride)
    span = 1 + sum((size - 1) * abs(stride) for size, stride in pairs)
    return min(elements, span) * tensor.itemsize


def bytes_read(func: OpOverload, arguments: Mapping[str, Any], results: Sequence[Tensor]) -> int:
    """Bytes that a call reads: each of its operands once."""
    name = func._opname
    if reads_shapes_alone(name):
        return 0
    read: dict[int, int] = {}
    for index, argument in enumerate(func._schema.arguments):
        written = argument.is_write and (argument.is_out or (index == 0 and name in OVERWRITING))
        if written or _is_unread(func, argument.name, arguments):
            continue
        for tensor in tensors_of(arguments[argument.name]):
            read[id(tensor)] = min(
                distinct_bytes(tensor), _picked_bytes(func, argument.name, tensor, arguments, results)
            )
    return sum(read.values())


def _is_unread(func: OpOverload, name: str, arguments: Mapping[str, Any]) -> bool:
    return name == "self" and arguments.get("beta", 1) == 0 and "beta" in arguments


def _picked_bytes(
    func: OpOverload, name: str, tensor: Tensor, arguments: Mapping[str, Any], results: Sequence[Tensor]
) -> float:
    source, counted = PICKED.get(func._opname, ("", ""))
    if name != source:
        return math.inf
    like = arguments[counted] if counted else results[0]
    return math.prod(like.shape) * tensor.itemsize if isinstance(like, Tensor) else math.inf


def bytes_written(func: OpOverload, arguments: Mapping[str, Any], results: Sequence[Tensor]) -> int:
    """Return the bytes that a call writes: each result and each mutated operand once."""
    written: dict[int, int] = {}
    for argument in func._schema.arguments:
        if argument.is_write and UNTOUCHED.get(func._opname) != argument.name:
            for tensor in tensors_of(arguments[argument.name]):
                written[id(tensor)] = int(
                    min(
                        distinct_bytes(tensor),
                        _picked_bytes(func, argument.name, tensor, arguments, results),
                    )
                )
    returned = [r for r in func._schema.returns if r.alias_info is None]
    if returned:
        allocated = results if len(returned) == len(func._schema.returns) else results[-len(returned) :]
        written |= {id(tensor): distinct_bytes(tensor) for tensor in allocated}
    return sum(written.values())
