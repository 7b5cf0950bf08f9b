"""Building blocks of a sample's arguments, and their random values: named dimensions, tensors, indices, masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import triten as tt

Sizes = Mapping[str, int]

SMALL: dict[str, int] = {
    "a": 3,
    "b": 5,
    "c": 4,
    "d": 2,
    "n": 2,
    "g": 4,
    "h": 6,
    "w": 7,
    "k": 328,
    "1": 1,
    "2": 2,
    "3": 3,
    "6": 6,
    "136": 136,
    "256": 256,
}
LARGE = {"a": 131, "b": 1029, "c": 72, "d": 33, "n": 3, "g": 16, "h": 30, "w": 35, "k": 1096}
CARD: dict[str, int] = SMALL | LARGE
"""What the letters of a sample stand for: at a glance in the interpreter, over several blocks on a card."""


def shape_of(dims: str, sizes: Sizes) -> tuple[int, ...]:
    """Return the sizes that a string of letters and numbers names.

    Example:
        >>> shape_of("a 136 b", {"a": 3, "b": 5})
        (3, 136, 5)
    """
    return tuple(sizes[size] if size in sizes else int(size) for size in dims.split())


@dataclass(frozen=True)
class T:
    """A tensor of the case's dtype with values between `low` and `high`; `dtype` fixes another one by name."""

    dims: str = "a b"
    low: float = -2.0
    high: float = 2.0
    dtype: str | None = None
    grad: bool = True


@dataclass(frozen=True)
class I:  # noqa: E742
    """Indices below the dimension `below`, all different along the last dimension if `unique`."""

    dims: str
    below: str
    unique: bool = False
    negative: bool = False


@dataclass(frozen=True)
class B:
    """A mask."""

    dims: str = "a b"


@dataclass(frozen=True)
class D:
    """A dimension as a number, such as a size of `view`: the product of `dims`, and `plus`."""

    dims: str
    plus: int = 0


class Placeholder:
    """Stands for what the case runs in: its dtype or its device."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


DTYPE, DEVICE = Placeholder("DTYPE"), Placeholder("DEVICE")

Leaf = Callable[[Any], Any]


def map_leaves(value: Any, change: Leaf) -> Any:
    """Apply a function to every element of nested lists and tuples."""
    if isinstance(value, list | tuple):
        return type(value)(map_leaves(item, change) for item in value)
    return change(value)


def draw(rng: np.random.Generator, leaf: Any, dtype: tt.dtype, sizes: Sizes) -> Any:
    """Return the value of one argument: an ndarray for tensors, a number for `D`, any other value unchanged."""
    if isinstance(leaf, T):
        wanted = getattr(tt, leaf.dtype) if leaf.dtype else dtype
        return draw_values(rng, shape_of(leaf.dims, sizes), wanted, leaf.low, leaf.high)
    if isinstance(leaf, I):
        return draw_indices(rng, shape_of(leaf.dims, sizes), sizes[leaf.below], leaf)
    if isinstance(leaf, B):
        return rng.integers(0, 2, shape_of(leaf.dims, sizes)).astype(bool)
    if isinstance(leaf, D):
        return int(np.prod(shape_of(leaf.dims, sizes))) + leaf.plus
    return leaf


def draw_values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: tt.dtype, low: float, high: float
) -> np.ndarray[Any, Any]:
    """Return random values of the dtype: floats within the bounds, small integers of the bounds' signs."""
    if dtype is tt.bool:
        return rng.integers(1 if low > 0 else 0, 2, shape).astype(bool)
    if dtype.is_complex:
        real, imag = rng.uniform(low, high, (2, *shape))
        return (real + 1j * imag).astype(dtype.np)
    if dtype.is_floating_point:
        return rng.uniform(low, high, shape).astype(dtype.np)
    lowest = 1 if low > 0 else 0 if low == 0 or not dtype.is_signed else -9
    return rng.integers(lowest, 10, shape).astype(dtype.np)


def draw_indices(
    rng: np.random.Generator, shape: tuple[int, ...], below: int, leaf: I
) -> np.ndarray[Any, Any]:
    """Return random indices; `unique` requires the last dimension to be at most `below`."""
    if below == 0:
        return np.zeros(shape, np.int64)
    if leaf.unique and shape:
        count = int(np.prod(shape[:-1]))
        rows = [rng.permutation(below)[: shape[-1]] for _ in range(count)]
        return np.array(rows, np.int64).reshape(shape)
    return rng.integers(-below if leaf.negative else 0, below, shape)


def as_scalars(value: Any) -> Any:
    """Return the argument's description with 0-dimensional tensors."""
    return replace(value, dims="") if isinstance(value, T | B) else value
