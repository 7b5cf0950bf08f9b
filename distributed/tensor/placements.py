"""How a tensor lies along one dimension of a mesh: `Shard`, `Replicate`, `Partial` (`torch.distributed.tensor`)."""

from __future__ import annotations

from typing import Any

from ..reduce_op import ReduceOp

__all__ = ["NormPartial", "Partial", "Placement", "Replicate", "Shard"]

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
    """How a tensor lies along one dimension of a mesh (`torch.distributed.tensor.Placement`)."""

    __slots__ = ("_hash", "_key")

    def __init__(self, *key: Any) -> None:
        self._key = key
        self._hash = hash((type(self), *key))

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along dimension `dim` if one is said."""
        return False

    def is_replicate(self) -> bool:
        """Whether each process has the whole."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether a reduction is left to do, the one of a name if one is said."""
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

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


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
        """What a collective does with the processes' tensors."""
        return REDUCTIONS[self.reduce_op]

    def before(self, tensor: Any) -> Any:
        """What a process gives to the reduction for its tensor."""
        return tensor

    def after(self, tensor: Any) -> Any:
        """The tensor that what the reduction gives stands for."""
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
