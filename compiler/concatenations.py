"""Fusion of `cat` and padding: each element is computed by the part that contains it.

A part is a tensor, or the last of a chain of pointwise steps that no other step reads. The kernel computes the chain
where it stores the result, so no part is written first. A padding, as in the gradient of a slice, is one number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.cpu.object_code import is_possible
from ..runtime.tensor_spec import TensorSpec
from .draws import DropoutCall
from .fused_step import EagerCall, FusedStep, IndexSpace
from .picks import PickCall
from .pointwise import bound_arguments
from .reductions import DTYPES

if TYPE_CHECKING:
    from .triton.pointwise import ElementWriter

MAX_PARTS = 8
"""The most parts of one `cat`: each element is compared with the bounds of every part."""
MAX_STEPS = 16
"""The most steps of all parts together: each is computed for all elements of a program, including other parts'."""


class Padding(NamedTuple):
    """A part of which all elements are one number.

    Attributes:
        length: how long it is along the dimension.
        value: the number.
    """

    length: int
    value: float | int


@dataclass(frozen=True)
class CatCall(FusedStep):
    """A `cat` or a padding along a dimension.

    Attributes:
        node: The step.
        dim: The dimension.
        parts: The joined tensors and paddings.
        chains: For each part, the steps that only this part needs, which are computed with it.
    """

    node: Node
    dim: int
    parts: tuple[Node | Padding, ...]
    chains: tuple[frozenset[Node], ...]
    is_split_off: ClassVar[bool] = True

    @property
    def operands(self) -> list[Any]:
        """The parts."""
        return list(self.parts)

    @property
    def starts(self) -> list[int]:
        """Start of each part along the dimension, and the end of the last part."""
        lengths = [p.length if isinstance(p, Padding) else p.val.sizes[self.dim] for p in self.parts]
        return [0, *accumulate(lengths)]

    @property
    def steps(self) -> frozenset[Node]:
        """The steps of all parts."""
        return frozenset().union(*self.chains)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The dimension along which the parts are joined."""
        return (self.dim,)

    @property
    def has_exclusions(self) -> bool:
        """True on the CPU."""
        return bool(self.node.val.device.type == "cpu")

    def excludes(self, other: FusedStep) -> bool:
        """Return True for random ops and gathers, and for a `cat` along another dimension."""
        if isinstance(other, CatCall):
            return other.dim != self.dim
        return isinstance(other, DropoutCall | PickCall)

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return False: only pointwise kernels join tensors."""
        return False

    def eager_call(self) -> EagerCall:
        """Return the step as an eager call."""
        from .host.joined_loops import eager_join

        return EagerCall(
            eager_join(self), [part for part in self.parts if isinstance(part, Node)], [self.node]
        )

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.accesses import joined_elements

        return {self.node: joined_elements(self, writer)}

    def read_region(self, index: int) -> Region:
        """Return the region of a part."""
        return Region(self, index)


class Region(NamedTuple):
    """Part of a `cat` for which a step is computed.

    Attributes:
        cat: The `cat`.
        part: The index of the part.
    """

    cat: CatCall
    part: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The part's sizes."""
        part = self.cat.parts[self.part]
        sizes = list(self.cat.node.val.sizes)
        sizes[self.cat.dim] = part.length if isinstance(part, Padding) else part.val.sizes[self.cat.dim]
        return tuple(sizes)

    @property
    def start(self) -> int:
        """Start of the part along the dimension."""
        return self.cat.starts[self.part]


def cat_call(
    node: Node, calls: Mapping[Node, FusedStep], results: Collection[Node], taken: Collection[Node]
) -> CatCall | None:
    """Return a step as a fusible `cat`, or None.

    Args:
        node: The step.
        calls: The steps that may be in kernels.
        results: The nodes that the program returns.
        taken: Steps that other kernels compute.
    """
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    spec = node.val
    if node.target._entry.name not in JOINING or not isinstance(spec, TensorSpec):
        return None
    if spec.device.type not in ("cpu", "cuda") or spec.dtype not in DTYPES or not spec.is_contiguous:
        return None
    if spec.device.type == "cpu" and not is_possible():
        return None
    dim_and_parts = JOINING[node.target._entry.name](bound_arguments(node), spec)
    if dim_and_parts is None or not 2 <= len(dim_and_parts[1]) <= MAX_PARTS:
        return None
    dim, parts = dim_and_parts
    if not all(isinstance(p, Padding) or _is_part(p.val, spec) for p in parts):
        return None
    chains: list[frozenset[Node]] = []
    for part in parts:
        chain: frozenset[Node] = frozenset()
        if isinstance(part, Node) and parts.count(part) == 1:
            chain = _chain_of(part, node, calls, results, taken)
        is_short = len(chain) + sum(map(len, chains)) <= MAX_STEPS
        chains.append(chain if is_short else frozenset())
    return CatCall(node, dim, tuple(parts), tuple(chains))


Parts = tuple[int, list[Node | Padding]]


def _joined(values: Sequence[Any], spec: TensorSpec) -> Parts | None:
    return values[1] % spec.ndim, list(values[0])


def _gradient_of_slice(values: Sequence[Any], spec: TensorSpec) -> Parts | None:
    gradient, _, dim, start, end, step = values
    slice_dim = dim % spec.ndim
    first, last, _ = slice(start, end).indices(spec.sizes[slice_dim])
    return (
        (slice_dim, _padded(gradient, first, spec.sizes[slice_dim] - last, 0))
        if step == 1 and first < last
        else None
    )


def _constant_padding(values: Sequence[Any], spec: TensorSpec) -> Parts | None:
    source, pads, value = values
    padded = [i for i in range(len(pads) // 2) if pads[2 * i] or pads[2 * i + 1]]
    if len(padded) != 1 or min(pads) < 0 or not _is_exact(value, spec):
        return None
    before, after = pads[2 * padded[0] : 2 * padded[0] + 2]
    value = value if spec.dtype.is_floating_point else int(value)
    return spec.ndim - 1 - padded[0], _padded(source, before, after, value)


def _is_exact(value: Any, spec: TensorSpec) -> bool:
    """Return True if a tensor's dtype represents a number exactly or rounded, without overflow."""
    if not isinstance(value, float | int):
        return False
    return not math.isfinite(value) or abs(value) < 6e4 if spec.dtype.is_floating_point else value in (0, 1)


def _padded(source: Node, before: int, after: int, value: float | int) -> list[Node | Padding]:
    around: list[Node | Padding] = [Padding(before, value), source, Padding(after, value)]
    return [part for part in around if not isinstance(part, Padding) or part.length]


JOINING: dict[str, Callable[[Sequence[Any], TensorSpec], Parts | None]] = {
    "aten::cat": _joined,
    "aten::slice_backward": _gradient_of_slice,
    "aten::constant_pad_nd": _constant_padding,
}
"""Operators whose results consist of parts, with functions from the arguments to the dimension and the parts."""


def _is_part(part: TensorSpec, spec: TensorSpec) -> bool:
    return bool(
        part.dtype is spec.dtype and part.device is spec.device and part.ndim == spec.ndim and part.numel
    )


def _chain_of(
    part: Node,
    cat: Node,
    calls: Mapping[Node, FusedStep],
    results: Collection[Node],
    taken: Collection[Node],
) -> frozenset[Node]:
    """Return the pointwise steps of a part's sizes that no step outside of the part reads."""
    chain: set[Node] = set()
    waiting = [part]
    while waiting:
        node = waiting.pop()
        call = calls.get(node)
        if call is None or not call.is_pointwise or node.val.sizes != part.val.sizes:
            continue
        is_read_elsewhere = any(user is not cat and user not in chain for user in node.users)
        if is_read_elsewhere or node in results or node in taken or node in chain:
            continue
        chain.add(node)
        waiting += node.all_input_nodes
        # A step that was read by one that came later is looked at again then.
    return frozenset(chain)


def cat_calls(
    nodes: Sequence[Node], calls: Mapping[Node, FusedStep], results: Collection[Node]
) -> list[CatCall]:
    """Return the fusible `cat` steps of a graph, each with its own chains."""
    cats: list[CatCall] = []
    taken: set[Node] = set()
    for node in nodes:
        call = None if node.target is operator.getitem else cat_call(node, calls, results, taken)
        if call is not None:
            cats.append(call)
            taken |= call.steps
    return cats


def regions_of(calls: Sequence[Any]) -> dict[Node, Region]:
    """Return the steps of a kernel that are computed for one part of a `cat`."""
    return {
        node: Region(call, k)
        for call in calls
        if isinstance(call, CatCall)
        for k, chain in enumerate(call.chains)
        for node in chain
    }
