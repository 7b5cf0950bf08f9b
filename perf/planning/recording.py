"""A program's calls and living bytes, noted while it runs on Meta tensors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...dispatch.autograd.node import Node
from ...dispatch.autograd.node_observation import Backward, ObservedNodes
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.generated.functions import empty_strided
from ...dispatch.random import fork_rng
from ...dispatch.tensor import Tensor
from ...runtime.device import META
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import root_of
from ..costs.watching import MetaCopies, Seen, Watching, Work


@dataclass(frozen=True)
class Operand:
    """Metadata of a tensor argument: everything except the bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: ScalarType

    @property
    def numel(self) -> int:
        """Elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def materialised(self, device: Device = META) -> Tensor:
        """Return a tensor with this metadata."""
        return empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)


@dataclass
class RecordedCall:
    """Calls with the same metadata: operator, arguments by name (tensors as `Operand`), results, work of one
    call, and count.
    """

    func: OpOverload
    arguments: Mapping[str, Any]
    results: Sequence[Operand]
    work: Work
    is_free: bool
    count: int = 0

    @property
    def operands(self) -> list[Operand]:
        """The tensors among the arguments, those of lists among them."""
        return [*operands_in(self.arguments.values())]

    @property
    def base(self) -> str:
        """The operator's name without namespace, overload and a trailing ``_``."""
        return self.func._opname.removesuffix("_")


@dataclass
class Recording:
    """All that a model of a device needs to know of a program."""

    calls: dict[str, RecordedCall]
    backward_nodes: int
    peak_bytes: int
    given_bytes: int


class LivingBytes:
    """Live bytes of all storages, and their peak.

    A storage counts from the call that first uses it until no tensor or graph holds it any more.
    """

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._roots: dict[int, weakref.ref[Any]] = {}

    def see(self, tensors: Iterable[Tensor]) -> None:
        """Count the storages that are new."""
        for tensor in tensors:
            root = root_of(tensor._data)
            number = id(root)
            if number in self._roots:
                continue
            nbytes = root.nbytes
            self._roots[number] = weakref.ref(root, self._forget(number, nbytes))
            self.now += nbytes
        self.peak = max(self.peak, self.now)

    def _forget(self, number: int, nbytes: int) -> Callable[[object], None]:
        def forget(_: object) -> None:
            del self._roots[number]
            self.now -= nbytes

        return forget


class Listener(Protocol):
    """Protocol of listeners to the events of a recorded program, in order."""

    def begin(self, program: object, tensors: Iterable[Tensor]) -> None:
        """Handle the start of the program with these stand-ins."""

    def called(self, key: str, call: Seen) -> None:
        """Handle the call of an operator; `key` is that of its `RecordedCall`."""

    def node_begins(self, node: Node) -> None:
        """Backward is about to visit a node."""

    def node_ended(self, node: Node) -> None:
        """Backward has visited it."""


def record(
    fn: Callable[..., object],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    listener: Listener | None = None,
) -> Recording:
    """Run a program on Meta tensors. Raises as `tt.perf.cost` does."""
    calls: dict[str, RecordedCall] = {}
    living = LivingBytes()
    copies = MetaCopies()
    fn, args, kwargs = copies.of((fn, tuple(args), dict(kwargs)))
    living.see(copies.tensors)
    argument_bytes = living.now
    if listener is not None:
        listener.begin((fn, args, kwargs), copies.tensors)
    thread = threading.get_ident()
    visited = 0

    def visit(node: Node, backward: Backward, grads: tuple[Any, ...]) -> Any:
        nonlocal visited
        visited += threading.get_ident() == thread
        if listener is None or threading.get_ident() != thread:
            return backward(node, *grads)
        listener.node_begins(node)
        grad_inputs = backward(node, *grads)
        listener.node_ended(node)
        return grad_inputs

    def watch(observed: Seen) -> None:
        nodes.cover()
        living.see(observed.results)
        arguments = {name: _frozen(value) for name, value in observed.arguments.items()}
        key = f"{observed.func.name()}{[*arguments.values()]!r}"
        recorded = calls.get(key)
        if recorded is None:
            results = [_frozen(result) for result in observed.results]
            recorded = calls[key] = RecordedCall(
                observed.func, arguments, results, observed.work, observed.is_free
            )
        recorded.count += 1
        if listener is not None:
            listener.called(key, observed)

    nodes = ObservedNodes(visit)
    try:
        with fork_rng(()), Watching("plan", watch):
            fn(*args, **kwargs)
    finally:
        nodes.close()
    return Recording(calls, visited, living.peak, argument_bytes)


def _frozen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Operand(tuple(value.shape), tuple(value.stride()), value.dtype)
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    return value


def operands_in(values: Iterable[Any]) -> Iterable[Operand]:
    """Yield the operands in these values and in tuples among them."""
    for value in values:
        if isinstance(value, Operand):
            yield value
        elif isinstance(value, tuple):
            yield from operands_in(value)


def materialised(value: Any, device: Device = META) -> Any:
    """Replace each operand in a value by a tensor."""
    if isinstance(value, Operand):
        return value.materialised(device)
    if isinstance(value, tuple):
        return tuple(materialised(element, device) for element in value)
    return value
