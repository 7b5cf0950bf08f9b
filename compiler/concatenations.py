"""`cat` in fused kernels on CUDA: each element is computed by the part that it belongs to.

A part may be a tensor, or the last of pointwise steps that nobody else reads, which are computed where the result is
stored: no part is written first.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .pointwise import PointwiseCall, bound_arguments
from .reductions import DTYPES

MOST_PARTS = 8
"""Of one `cat`: each element asks for all of them which it belongs to."""
MOST_STEPS = 16
"""Of all parts together: each is computed for all elements of a program, those of other parts among them."""


class CatCall(NamedTuple):
    """A step that puts tensors one after another along a dimension.

    Attributes:
        node: the step.
        dim: the dimension.
        parts: what is put together.
        chains: for each part the steps that it alone needs, which are computed with it.
    """

    node: Node
    dim: int
    parts: tuple[Node, ...]
    chains: tuple[frozenset[Node], ...]

    @property
    def operands(self) -> list[Any]:
        """The parts."""
        return list(self.parts)

    @property
    def starts(self) -> list[int]:
        """Where along the dimension each part begins, and where the last one ends."""
        return [0, *accumulate(part.val.sizes[self.dim] for part in self.parts)]

    @property
    def steps(self) -> frozenset[Node]:
        """The steps of all parts."""
        return frozenset().union(*self.chains)


class Region(NamedTuple):
    """A part of a `cat` as the place where a step is computed.

    Attributes:
        cat: the `cat`.
        part: which of its parts.
    """

    cat: CatCall
    part: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The part's sizes."""
        return tuple(self.cat.parts[self.part].val.sizes)

    @property
    def start(self) -> int:
        """Where it begins along the dimension."""
        return self.cat.starts[self.part]


def cat_call(
    node: Node, calls: Mapping[Node, Any], results: Collection[Node], taken: Collection[Node]
) -> CatCall | None:
    """A step as a `cat` that may be in a kernel, or None for any other.

    Args:
        node: the step.
        calls: the steps that may be in kernels.
        results: what the program returns.
        taken: steps that other kernels have.
    """
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    spec = node.val
    if node.target._entry.name != "aten::cat" or not isinstance(spec, TensorSpec):
        return None
    given, dim = bound_arguments(node)
    parts = tuple(given)
    if spec.device.type != "cuda" or not 2 <= len(parts) <= MOST_PARTS or not spec.is_contiguous:
        return None
    if spec.dtype not in DTYPES or any(not _is_part(p.val, spec) for p in parts):
        return None
    chains: list[frozenset[Node]] = []
    for part in parts:
        chain = _chain_of(part, node, calls, results, taken)
        is_short = len(chain) + sum(map(len, chains)) <= MOST_STEPS
        chains.append(chain if is_short and parts.count(part) == 1 else frozenset())
    return CatCall(node, dim % spec.ndim, parts, tuple(chains))


def _is_part(part: TensorSpec, spec: TensorSpec) -> bool:
    return bool(
        part.dtype is spec.dtype and part.device is spec.device and part.ndim == spec.ndim and part.numel
    )


def _chain_of(
    part: Node,
    cat: Node,
    calls: Mapping[Node, Any],
    results: Collection[Node],
    taken: Collection[Node],
) -> frozenset[Node]:
    """The pointwise steps of a part's sizes that nobody else reads."""
    found: set[Node] = set()
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if not isinstance(calls.get(node), PointwiseCall) or node.val.sizes != part.val.sizes:
            continue
        is_read_elsewhere = any(user is not cat and user not in found for user in node.users)
        if is_read_elsewhere or node in results or node in taken or node in found:
            continue
        found.add(node)
        waiting += node.all_input_nodes
        # A step that was read by one that came later is looked at again then.
    return frozenset(found)


def cat_calls(nodes: Sequence[Node], calls: Mapping[Node, Any], results: Collection[Node]) -> list[CatCall]:
    """The steps of a graph that may be a `cat` in a kernel, each with the steps of its own."""
    found: list[CatCall] = []
    taken: set[Node] = set()
    for node in nodes:
        call = None if node.target is operator.getitem else cat_call(node, calls, results, taken)
        if call is not None:
            found.append(call)
            taken |= call.steps
    return found


def regions_of(calls: Sequence[Any]) -> dict[Node, Region]:
    """The steps of a kernel that are computed for a part of a `cat`."""
    return {
        node: Region(call, k)
        for call in calls
        if isinstance(call, CatCall)
        for k, chain in enumerate(call.chains)
        for node in chain
    }
