"""Definition of sharding rules and their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..placements import REPLICATE, Placement, Shard
from ..spec import DTensorSpec, TensorMeta

__all__ = ["Group", "Invocation", "Rule", "Strategy"]


class Strategy(NamedTuple):
    """One way of computing an operator on parts: how results lie if arguments lie so, along one mesh dimension.

    Attributes:
        outputs: Placement of each returned tensor.
        inputs: Placement of each tensor argument; None accepts any placement.
    """

    outputs: tuple[Placement | None, ...]
    inputs: tuple[Placement | None, ...]


class Invocation:
    """Call of an operator: its arguments, with specs instead of tensors.

    Attributes:
        name: Full name of the operator.
        values: Arguments by name, including defaults.
        tensors: Specs of its tensors in order, including those in lists.
        results: Shape, strides and dtype of each returned tensor.
        count: Number of ranks along the mesh dimension.
        divided: For each tensor, the number of parts that earlier mesh dimensions make of each dimension.
        results_divided: The same for the results.
        mesh_dim: Index of the mesh dimension.
    """

    def __init__(
        self,
        name: str,
        values: dict[str, Any],
        tensors: Sequence[DTensorSpec],
        results: Sequence[TensorMeta],
    ) -> None:
        self.name = name
        self.values = values
        self.tensors = list(tensors)
        self.results = list(results)
        self.count = 1
        self.mesh_dim = 0
        self.divided: list[dict[int, int]] = [{} for _ in tensors]
        self.results_divided: list[dict[int, int]] = [{} for _ in results]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or the default if the operator has no argument of this name."""
        return self.values.get(name, default)

    def index(self, spec: DTensorSpec) -> int:
        """Return the position of a spec among the tensors."""
        return next(position for position, each in enumerate(self.tensors) if each is spec)

    def current(self, index: int) -> Placement:
        """Return the current placement of a tensor along this mesh dimension."""
        return self.tensors[index].placements[self.mesh_dim]

    def is_even(self, index: int, dim: int) -> bool:
        """Return True if a dimension of an argument splits evenly."""
        return self._divides(self.tensors[index].shape[dim], self.divided[index].get(dim, 1))

    def is_even_result(self, index: int, dim: int) -> bool:
        """Return True if a dimension of a result splits evenly."""
        return self._divides(self.results[index].shape[dim], self.results_divided[index].get(dim, 1))

    def _divides(self, size: int, divided: int) -> bool:
        return size % (divided * self.count) == 0


class Group(NamedTuple):
    """Tensors of a call whose placements depend on each other, and on no others.

    Attributes:
        outputs: Their indices among the results.
        inputs: Their indices among the tensor arguments.
        strategies: for these.
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    strategies: Sequence[Strategy]


class Rule(NamedTuple):
    """How an operator computes on parts.

    Attributes:
        strategies: Function that returns the strategies along one mesh dimension. The first of equal cost is
            taken.
        sizes: Argument with the result's shape, if any; a local call gets the local shape.
        groups: Replacement of `strategies` for lists of tensors.
        by_value: True if the strategies depend on the values of numbers, besides what every key contains.
        local: Function that computes a part instead of the operator. It takes the operator, this rank's
            arguments by name, the invocation, and the specs of the inputs.
        unscaled: Argument that is written only if gradients are unscaled (``grad_scale``).
        plain: If True, plain tensors beside distributed ones count as replicated, as indices do.
        replicates: If True, replicated computation is the only strategy, so no warning is issued.
    """

    strategies: Callable[[Invocation], Sequence[Strategy]] | None = None
    sizes: str | None = None
    groups: Callable[[Invocation], Sequence[Group]] | None = None
    by_value: bool = False
    local: Callable[..., Any] | None = None
    unscaled: str | None = None
    plain: bool = False
    replicates: bool = False


def replicated(call: Invocation) -> Strategy:
    """Return the strategy that replicates all tensors."""
    return Strategy((REPLICATE,) * len(call.results), (REPLICATE,) * len(call.tensors))


def shard(dim: int | None) -> Placement:
    """Return a shard along a dimension; replicate if `dim` is None."""
    return REPLICATE if dim is None else Shard(dim)
