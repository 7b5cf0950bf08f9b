"""Composites of operators that take dimensions by name: they call the overload by position.

Source: dimname_to_position in ATen/core/NamedTensor.h, ATen/native/NamedTensor.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ...runtime.dimname import Names, checked_names, describe, position_of
from ...runtime.named_spec import named
from ..core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from ..tensor import Tensor


def by_name(operator: str) -> Callable[..., Any]:
    """Return a composite that replaces names among its arguments by positions, and calls `operator`.

    The names are those of the first argument, or of the first tensor of a list.
    """
    full_name = f"aten::{operator}"

    def call(*args: Any) -> Any:
        first = args[0][0] if args[0].__class__ is tuple else args[0]
        names: Names = first._spec.names
        entry = Dispatcher.singleton().find_schema_or_throw(full_name)
        return entry.call(*[_positions(value, names) for value in args])

    return call


def _positions(value: Any, names: Names) -> Any:
    """Return a name as its position and a tuple of names as their positions; other values are unchanged."""
    if isinstance(value, str):
        return position_of(value, names)
    if isinstance(value, tuple) and value and all(v is None or isinstance(v, str) for v in value):
        return tuple([position_of("*" if v is None else v, names) for v in value])
    return value


def refused(operator: str) -> Callable[..., Any]:
    """Return a composite that raises PyTorch's error for operators that take dimensions by position only."""

    def refuse(*args: Any) -> NoReturn:
        raise RuntimeError(
            f"{operator}: You passed a dimname (string) to this op in place of a dimension index but it does not yet "
            "support this behavior. Please pass a dimension index to work around this."
        )

    return refuse


def flatten_to(self: Tensor, start_dim: int, end_dim: int, out_dim: str) -> Tensor:
    """Flatten a range of dimensions into one named dimension (`torch.flatten`)."""
    from ..layers.named.key import renamed
    from ..structured.meta.dims import wrap_dim
    from .views import flatten

    names: Names = self._spec.names
    rank = len(names)
    first, last = wrap_dim(start_dim, rank), wrap_dim(end_dim, rank)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    joined = (*names[:first], out_dim, *names[last + 1 :])
    after = checked_names(joined, len(joined))
    return renamed(flatten(renamed(self, (None,) * rank), first, last), after)


def flatten_between(self: Tensor, start_dim: str, end_dim: str, out_dim: str) -> Tensor:
    """Flatten the dimensions from one name to another (`torch.flatten`)."""
    names: Names = self._spec.names
    return flatten_to(self, position_of(start_dim, names), position_of(end_dim, names), out_dim)


def flatten_names(self: Tensor, dims: Sequence[str], out_dim: str) -> Tensor:
    """Flatten dimensions by name (`torch.flatten`); they must be adjacent and in this order."""
    names: Names = self._spec.names
    if not dims:
        raise RuntimeError("flatten(tensor, dims, out_dim): dims cannot be empty")
    positions = [position_of("*" if dim is None else dim, names) for dim in dims]
    if positions != list(range(positions[0], positions[0] + len(positions))):
        raise RuntimeError(
            f"flatten(tensor, dims, out_dim): dims {describe(dims)} must be consecutive in Tensor{describe(names)}"
        )
    return flatten_to(self, positions[0], positions[-1], out_dim)


def unflatten_to(self: Tensor, dim: str, sizes: Sequence[int], names: Sequence[str | None]) -> Tensor:
    """Unflatten a dimension, given by name, into named dimensions (`torch.unflatten`)."""
    from ..layers.named.key import renamed
    from .views import unflatten

    before: Names = self._spec.names
    position = position_of(dim, before)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    have = self._spec.sizes[position]
    known = math.prod(n for n in sizes if n != -1)
    if -1 in sizes and known and have % known == 0:
        sizes = [have // known if n == -1 else n for n in sizes]
    if math.prod(sizes) != have:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {position} ({dim!r}: "
            f"{have}) in Tensor{describe(before)}"
        )
    parts = (*before[:position], *names, *before[position + 1 :])
    after = checked_names(parts, len(parts))
    return renamed(unflatten(renamed(self, (None,) * len(before)), position, sizes), after)


def unflatten_namedshape(self: Tensor, dim: str, sizes: Any) -> Tensor:
    """Unflatten a dimension (`torch.Tensor.unflatten`) with pairs of name and size, or an ordered mapping of them.

    Raises TypeError for anything else.
    """
    pairs = tuple(sizes.items()) if isinstance(sizes, Mapping) else sizes
    if not isinstance(pairs, tuple | list):
        raise TypeError(
            "unflatten(): with a name for dim, sizes must be pairs of name and size, not "
            f"{type(sizes).__name__}"
        )
    names: list[str] = []
    lengths: list[int] = []
    for pair in pairs:
        if not (
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], int)
        ):
            raise TypeError(
                f"unflatten(): with a name for dim, sizes must be pairs of name and size, got {pair!r}"
            )
        names.append(pair[0])
        lengths.append(pair[1])
    return unflatten_to(self, dim, lengths, names)


def diagonal_by_name(self: Tensor, outdim: str, dim1: str, dim2: str, offset: int) -> Tensor:
    """Return the diagonal of two dimensions by name (`torch.diagonal`); `outdim` names the new dimension."""
    from ..layers.named.key import renamed

    names: Names = self._spec.names
    diagonal = self.diagonal(offset, position_of(dim1, names), position_of(dim2, names))
    after = (*diagonal._spec.names[:-1], outdim)
    return renamed(diagonal, checked_names(after, len(after)))


def named_factory(operator: str, position: int) -> Callable[..., Any]:
    """Return a composite that makes a tensor by `operator` and names its dimensions.

    Its arguments are those of `operator` and, at `position`, the names.
    """
    full_name = f"aten::{operator}"

    def make(*args: Any) -> Any:
        names = args[position]
        after = None if names is None else checked_names(names, len(args[0]))
        entry = Dispatcher.singleton().find_schema_or_throw(full_name)
        made = entry.call(*args[:position], *args[position + 1 :])
        if after is not None:
            made._spec = named(made._spec, after)
        return made

    return make
