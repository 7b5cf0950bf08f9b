"""Cached shapes of blocks: Triton creates them again for every value of a kernel.

Its language gives each value a tuple of constants with a type of its own, and each type of a block another tuple and
a name. In an interpreted kernel that took a third of the time. Shapes are immutable, so values share them.
"""

from __future__ import annotations

import builtins
from typing import Any

import triton.language as tl
from triton._utils import validate_block_shape
from triton.language.semantic import TritonSemantic

core = tl.core


class _Shape:
    """Shared objects of all types and values of one shape."""

    __slots__ = ("constants", "count", "numel", "sizes")

    def __init__(self, sizes: builtins.tuple[int, ...]) -> None:
        self.numel = validate_block_shape(list(sizes))
        self.sizes = core.tuple(sizes)
        self.constants = core.tuple([core.constexpr(size) for size in sizes])
        self.count = core.constexpr(self.numel)


_shapes: dict[builtins.tuple[int, ...], _Shape] = {}
_by_identity: dict[int, _Shape] = {}
"""The same by the identity of `_Shape.sizes`, which live as long as the process."""
_NO_SIZES, _ONE = core.tuple([]), core.constexpr(1)


def _shape_of(sizes_or_shape: Any) -> _Shape:
    known = _by_identity.get(id(sizes_or_shape))
    if known is None:
        sizes = builtins.tuple(core._unwrap_shape(sizes_or_shape))
        # 2.0 and 2 are equal keys, but 2.0 is no size.
        known = _shapes.get(sizes) if all(size.__class__ is int for size in sizes) else None
        if known is None:
            known = _shapes[sizes] = _Shape(sizes)
            _by_identity[id(known.sizes)] = known
    return known


def _make_block_type(self: Any, element_ty: Any, shape: Any) -> None:
    assert isinstance(shape, list | core.tuple)
    block_shape = _shape_of(shape)
    if not block_shape.sizes.values:
        raise TypeError("0d block_type is forbidden")
    self.element_ty, self.shape, self.numel = element_ty, block_shape.sizes, block_shape.numel


def _name_of_block_type(self: Any) -> str:
    return f"<{self.shape}, {self.element_ty}>"


def _make_tensor(self: Any, handle: Any, type: Any) -> None:
    self.handle, self.type, self.dtype = handle, type, type.scalar
    if type.is_block():
        block_shape = _shape_of(type.shape)
        self.shape, self.numel = block_shape.constants, block_shape.count
    else:
        self.shape, self.numel = _NO_SIZES, _ONE


class _Format(str):
    """Name of a number format that is a constant, too, which Triton expects before 3.9."""

    __slots__ = ()

    @property
    def value(self) -> str:
        return str(self)


class Semantic(TritonSemantic):  # type: ignore[misc]
    """Triton's rules for operands; blocks of one shape need no broadcasting."""

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block() and right.is_block() and left.shape is right.shape:
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)

    def dot_scaled(
        self, lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, *more: Any
    ) -> Any:
        formats = [_Format(core._unwrap_if_constexpr(each)) for each in (lhs_format, rhs_format)]
        return super().dot_scaled(lhs, lhs_scale, formats[0], rhs, rhs_scale, formats[1], *more)


def install() -> None:
    """Make Triton's types and values share shapes, for the rest of the process."""
    core.block_type.__init__ = _make_block_type
    core.block_type.name = property(_name_of_block_type)
    core.tensor.__init__ = _make_tensor
