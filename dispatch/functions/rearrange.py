"""`tt.func.rearrange`: dimensions by name, permuted, merged and split (`torch.func.rearrange`).

The patterns are those of einops (Rogozhnikov, "Einops: Clear and Reliable Tensor Manipulations with Einstein-like
Notation", 2022). A call is one reshape, one permutation and one reshape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..generated import functions as _ops

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["rearrange"]

ELLIPSIS = "..."
_TOKEN = re.compile(r"\(|\)|\.\.\.|[^\s()]+")

Axis = str
Group = tuple[Axis, ...]
REST: Group = (ELLIPSIS, "")
"""All unnamed dimensions, each on its own; in parentheses they merge into one, ``(ELLIPSIS,)``."""


class _Pattern(NamedTuple):
    """Both sides of a pattern: a group of names for each dimension, an empty group for a size of 1."""

    left: tuple[Group, ...]
    right: tuple[Group, ...]


@lru_cache(256)
def _parsed(pattern: str) -> _Pattern:
    if pattern.count("->") != 1:
        raise ValueError(f"rearrange: Pattern must contain a single '->' separator, got {pattern!r}")
    left, right = (_groups(side) for side in pattern.split("->"))
    once = {axis for group in left for axis in group} ^ {axis for group in right for axis in group}
    once.discard("")
    if once:
        raise ValueError(
            f"rearrange: Identifiers only on one side of rearrange expression (should be on both): {once}"
        )
    if any(ELLIPSIS in group and group is not REST for group in left):
        raise ValueError(
            f"rearrange: an ellipsis inside parentheses is not allowed on the left side: {pattern!r}"
        )
    return _Pattern(left, right)


def _groups(side: str) -> tuple[Group, ...]:
    """Parse one side of a pattern. Raises ValueError if it is malformed."""
    groups: list[Group] = []
    inside: list[Axis] | None = None
    seen: set[Axis] = set()
    for token in _TOKEN.findall(side):
        if token == "(":
            if inside is not None:
                raise ValueError(
                    "rearrange: Axis composition is one-level (brackets inside brackets not allowed)"
                )
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side!r}")
            groups.append(tuple(inside))
            inside = None
        elif token.isdecimal():
            if int(token) != 1:
                raise ValueError("rearrange only supports unnamed axes of size 1")
            if inside is None:
                groups.append(())
        else:
            _check_name(token, side, seen)
            if inside is None:
                groups.append(REST if token == ELLIPSIS else (token,))
            else:
                inside.append(token)
    if inside is not None:
        raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side!r}")
    return tuple(groups)


def _check_name(token: str, side: str, seen: set[str]) -> None:
    if token in seen:
        if token == ELLIPSIS:
            raise ValueError(
                "rearrange: Expression may contain dots only inside ellipsis (...); only one ellipsis"
            )
        raise ValueError(f"rearrange: Indexing expression contains duplicate dimension {token!r}")
    seen.add(token)
    if token == ELLIPSIS:
        return
    if "." in token:
        raise ValueError(f"rearrange: Expression may contain dots only inside ellipsis (...): {side!r}")
    if not token.isidentifier() or token.startswith("_") or token.endswith("_"):
        raise ValueError(
            f"rearrange: Invalid axis identifier: {token}; a Python identifier that neither starts nor ends with an "
            "underscore is expected"
        )


@api_boundary
def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Permute, merge and split dimensions that a pattern names (`torch.func.rearrange`).

    Args:
        tensor: A tensor, or several of one shape, which are stacked along a new first dimension.
        pattern: Names for the dimensions before and after ``->``: names in parentheses form one dimension, ``...``
            stands for all that are not named, ``1`` and ``()`` for a dimension of size 1.
        axes_lengths: Sizes of names; each dimension in parentheses may have one name without a size.

    Returns:
        The rearranged tensor, a view where that is possible.

    Raises:
        ValueError: The pattern is malformed, its sides have different names, or its sizes do not match the tensor's.

    Example:
        >>> import triten as tt
        >>> images = tt.zeros(8, 30, 40, 3)
        >>> tt.func.rearrange(images, "b h w c -> b c h w").shape
        triten.Size([8, 3, 30, 40])
        >>> tt.func.rearrange(images, "(b1 b2) h w c -> (b1 h) (b2 w) c", b1=2).shape
        triten.Size([60, 160, 3])
    """
    whole = tensor if isinstance(tensor, TensorImpl) else _ops.stack(list(tensor))
    left, right = _parsed(pattern)
    axes = [axis for group in left for axis in group if axis]
    unknown = set(axes_lengths) - set(axes)
    if unknown:
        raise ValueError(f"rearrange: Identifiers not found in rearrange expression: {unknown}")
    sizes = _sizes_of(whole.shape, left, axes_lengths, pattern)
    # A nameless dimension has size 1, and the first reshape drops it; an ellipsis stands for several dimensions.
    split = [size for axis in axes for size in sizes[axis]]
    dims_of_axis: dict[Axis, list[int]] = {}
    count = 0
    for axis in axes:
        dims_of_axis[axis] = list(range(count, count + len(sizes[axis])))
        count += len(sizes[axis])
    order = [number for group in right for axis in group if axis for number in dims_of_axis[axis]]
    merged: list[int] = []
    for group in right:
        if group is REST:
            merged += sizes[ELLIPSIS]
        else:
            merged.append(math.prod(size for axis in group for size in sizes[axis]))
    return whole.reshape(split).permute(order).reshape(merged)


def _sizes_of(
    shape: Sequence[int], left: tuple[Group, ...], lengths: dict[str, int], pattern: str
) -> dict[Axis, list[int]]:
    """Return the sizes of each name; for an ellipsis, those of all its dimensions."""
    sizes: dict[Axis, list[int]] = {axis: [size] for axis, size in lengths.items()}
    known = len(left) - (REST in left)
    rest = len(shape) - known
    if rest < 0 or (rest > 0 and REST not in left):
        raise ValueError(
            f"rearrange: {pattern!r} names {known} dimensions, expected {len(shape)} for a tensor of shape "
            f"{list(shape)}"
        )
    number = 0
    for group in left:
        if group is REST:
            sizes[ELLIPSIS] = list(shape[number : number + rest])
            number += rest
            continue
        size = shape[number]
        number += 1
        known_size = math.prod(lengths[axis] for axis in group if axis in lengths)
        open_axes = [axis for axis in group if axis not in lengths]
        if len(open_axes) > 1:
            raise ValueError(f"rearrange: cannot infer the sizes of two dimensions at once: {open_axes}")
        if open_axes and known_size and size % known_size == 0:
            sizes[open_axes[0]] = [size // known_size]
        elif open_axes or known_size != size:
            raise ValueError(
                f"rearrange: dimension {number - 1} of size {size} does not fit ({' '.join(group)}) with "
                f"{ {axis: lengths[axis] for axis in group if axis in lengths} }"
            )
    return sizes
