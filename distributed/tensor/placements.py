"""Placements of a tensor along a mesh dimension: `Shard`, `Replicate`, `Partial`
(`torch.distributed.tensor`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..reduce_op import ReduceOp

__all__ = ["NormPartial", "Partial", "Placement", "Replicate", "Shard", "StridedShard"]

REDUCTIONS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}


class Placement:
    """Placement of a tensor along one mesh dimension (`torch.distributed.tensor.Placement`)."""

    __slots__ = ("_hash", "_key")

    def __init__(self, *key: Any) -> None:
        self._key = key
        self._hash = hash((type(self), *key))

    def is_shard(self, dim: int | None = None) -> bool:
        """Return True if the placement is a shard, along dimension `dim` if given."""
        return False

    def is_replicate(self) -> bool:
        """Return True if each rank has the whole tensor."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return True if a reduction is pending, of the kind `reduce_op` if given."""
        return False

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key


class Shard(Placement):
    """Each process has a part along a dimension of the tensor (`torch.distributed.tensor.Shard`).

    The parts are those of `tt.chunk`: the first ones are the larger, the last ones may be empty.

    Args:
        dim: the dimension of the tensor; from the end where it is negative.

    Example:
        >>> from triten.distributed.tensor import Shard
        >>> Shard(0), str(Shard(1)), Shard(0).is_shard(1)
        (Shard(dim=0), 'S(1)', False)
    """

    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.dim = dim

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size and the begin of a rank's part of a dimension.

        Args:
            curr_local_size: Size of the dimension before it is sharded.
            num_chunks: Number of parts.
            rank: Number of the part.

        Example:
            >>> from triten.distributed.tensor import Shard
            >>> [Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
            [(2, 0), (2, 2), (1, 4), (0, 5)]
        """
        full = -(-curr_local_size // num_chunks)
        begin = min(rank * full, curr_local_size)
        return min(full, curr_local_size - begin), begin

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class StridedShard(Placement):
    """One part of each of `split_factor` groups along a dimension (`torch.distributed.tensor._StridedShard`).

    `compute_local_shape_and_global_offset` knows this placement. No DTensor has it.

    Args:
        dim: Dimension of the tensor.
        split_factor: Number of groups. Default: 1.
        sf: Short name of `split_factor`.

    Raises:
        TypeError: `split_factor` and `sf` are both given.

    Example:
        >>> from triten.distributed.tensor.placements import StridedShard
        >>> StridedShard(0, split_factor=2), StridedShard(0, split_factor=2).local_indices(8, 2, 1)
        (_StridedShard(dim=0, sf=2), [2, 3, 6, 7])
    """

    __slots__ = ("dim", "split_factor")

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        if sf is not None:
            if split_factor != 1:
                raise TypeError("_StridedShard received both split_factor and sf")
            split_factor = sf
        super().__init__(dim, split_factor)
        self.dim = dim
        self.split_factor = split_factor

    def local_indices(self, curr_local_size: int, num_chunks: int, rank: int) -> list[int]:
        """Return the indices of a rank's part of a dimension."""
        indices: list[int] = []
        for group in range(self.split_factor):
            group_size, group_begin = Shard.local_shard_size_and_offset(
                curr_local_size, self.split_factor, group
            )
            size, begin = Shard.local_shard_size_and_offset(group_size, num_chunks, rank)
            indices += range(group_begin + begin, group_begin + begin + size)
        return indices

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.dim, split_factor=self.split_factor), ()

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Each process has the whole tensor (`torch.distributed.tensor.Replicate`).

    Example:
        >>> from triten.distributed.tensor import Replicate
        >>> Replicate(), str(Replicate()), Replicate().is_replicate()
        (Replicate(), 'R', True)
    """

    __slots__ = ()

    def is_replicate(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """A reduction of all processes' tensors is the tensor (`torch.distributed.tensor.Partial`).

    Args:
        reduce_op: ``"sum"``, ``"avg"``, ``"product"``, ``"max"``, ``"min"``, ``"band"``, ``"bor"`` or ``"bxor"``.

    Raises:
        ValueError: there is no such reduction.

    Example:
        >>> from triten.distributed.tensor import Partial
        >>> Partial(), str(Partial("max")), Partial().is_partial("sum")
        (Partial(sum), 'P(max)', True)
    """

    __slots__ = ("reduce_op",)

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in REDUCTIONS:
            raise ValueError(
                f"Partial: expected a reduce_op of {', '.join(REDUCTIONS)}, but got {reduce_op!r}"
            )
        super().__init__(reduce_op)
        self.reduce_op = reduce_op

    @property
    def reduction(self) -> ReduceOp:
        """Reduction that a collective applies."""
        return REDUCTIONS[self.reduce_op]

    def before(self, tensor: Any) -> Any:
        """Return the value that a rank contributes to the reduction."""
        return tensor

    def after(self, tensor: Any) -> Any:
        """Return the tensor for a reduction's result."""
        return tensor

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class NormPartial(Partial):
    """Each process has the norm of its part of the elements.

    Args:
        order: the norm's; finite, and not 0.
    """

    __slots__ = ("order",)

    def __init__(self, order: float) -> None:
        super().__init__("sum")
        Placement.__init__(self, order)
        self.order = order

    def before(self, tensor: Any) -> Any:
        return tensor if self.order == 1 else tensor**self.order

    def after(self, tensor: Any) -> Any:
        return tensor if self.order == 1 else tensor ** (1.0 / self.order)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None

    def __repr__(self) -> str:
        return f"NormPartial({self.order})"

    def __str__(self) -> str:
        return f"P(norm {self.order})"


REPLICATE = Replicate()
