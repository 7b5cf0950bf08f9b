"""Gathers and scatters of contiguous arrays by compiled loops, once NumPy has done enough of them (`index_loop.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ...runtime.scalar_type import int64
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array, Array, Array], None]
"""Function of the result, the elements that are moved, and the index."""

MIN_ELEMENTS = 1 << 12
"""Elements from which a loop is looked for."""
COMPILE_THRESHOLD = 1 << 22
"""Compile a loop once NumPy has moved this many elements."""
PARTS = 16
"""Parts that threads take one by one."""
SHARED_FROM, WAKING_FROM = 1 << 16, 1 << 19
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""
ADDED = ("float32", "float64", "int64")


class IndexGeometry(NamedTuple):
    """Geometry of a gather or scatter along a dimension (`index_loop.NUMBERS`).

    Attributes:
        outer, inner: Products of the other dimensions.
        picked, size: Length of the index and of the large array along the dimension.
        index: Strides of the index along the outer dimension, along the dimension, and along the inner one.
        small: The same strides of the small array.
    """

    outer: int
    picked: int
    size: int
    inner: int
    index: tuple[int, int, int]
    small: tuple[int, int, int]

    @property
    def is_flat(self) -> bool:
        """True if the inner dimension is 1."""
        return self.inner == 1

    @property
    def moves(self) -> tuple[bool, bool]:
        """For the index and the small array: True if it moves along the innermost loop."""
        d = 1 if self.is_flat else 2
        return bool(self.index[d]), bool(self.small[d])

    def parts(self) -> list[Array]:
        """Return the numbers of the parts: some of the outer dimension, or of the inner one if that is longer."""
        if self.outer >= self.inner:
            step = -(-self.outer // PARTS)
            ranges = [(i, min(i + step, self.outer), 0, self.inner) for i in range(0, self.outer, step)]
        else:
            step = -(-self.inner // PARTS)
            ranges = [(0, self.outer, i, min(i + step, self.inner)) for i in range(0, self.inner, step)]
        lengths = (self.picked, self.size, self.inner)
        return [np.array((*each, *lengths, *self.index[:2], *self.small[:2])) for each in ranges]


def index_geometry(
    large: TensorSpec, dim: int, index: TensorSpec, small: TensorSpec | None
) -> IndexGeometry | None:
    """Return the geometry of contiguous tensors; None for other or small ones.

    Args:
        large: The tensor whose elements the index names.
        dim: The dimension of the index.
        index: A vector, or a tensor with the sizes of `large` in all other dimensions.
        small: The tensor of an element for each one that the index names, or None for a number.
    """
    if not large.ndim or index.dtype is not int64:
        return None
    before, after = large.sizes[:dim], large.sizes[dim + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    picked = index.sizes[dim] if index.ndim == large.ndim else index.numel
    dense = (picked * inner, inner, 1)
    if index.sizes == (*before, picked, *after):
        index_strides = dense
    elif index.ndim == 1:
        index_strides = (0, 1, 0)
    else:
        return None
    if outer * picked * inner < MIN_ELEMENTS or (
        small is not None and small.sizes != (*before, picked, *after)
    ):
        return None
    if not all(each.is_contiguous for each in (large, index, small) if each is not None):
        return None
    return IndexGeometry(outer, picked, large.sizes[dim], inner, index_strides, dense if small else (0, 0, 0))


def gather_by_loop(geometry: IndexGeometry | None, itemsize: int, eager: Kernel) -> Kernel | None:
    """Return ``into(out, array, index)``, which gathers by a loop as soon as there is one; None for other calls.

    Args:
        geometry: Geometry of the call.
        itemsize: Bytes of an element.
        eager: The same by NumPy. It also computes indices that are out of bounds of the loop, or raises their error.
    """
    if geometry is None or itemsize not in (1, 2, 4, 8):
        return None

    def prepare(loop: Loop) -> Kernel:
        run = _shared(loop, geometry)

        def into(out: Array, array: Array, index: Array) -> None:
            if not (np.may_share_memory(out, array) or np.may_share_memory(out, index)):
                run(out, array, index, failed := np.zeros((), np.int64))
                if not failed:
                    return
            eager(out, array, index)

        return into

    return _until_compiled("gather", f"{8 * itemsize} bits", geometry, eager, prepare)


def scatter_by_loop(
    geometry: IndexGeometry | None,
    out: TensorSpec,
    eager: Kernel,
    added: Callable[[Array], object] | None = None,
) -> Kernel:
    """Return ``into(out, values, index)``, which writes or adds values in order, by a loop as soon as there is one.

    Args:
        geometry: Geometry of the call, or None if there is no loop.
        out: The tensor that is written.
        eager: The same by NumPy. It also computes indices that are out of bounds of the loop, or raises their error.
        added: If values are added, the function that raises the error of an index out of bounds: nothing may be added
            twice. Default: None, values are written.
    """
    adds = added is not None
    elements = out.dtype.name if adds else f"{8 * out.itemsize} bits"
    if geometry is None or not out.is_contiguous or (adds and elements not in ADDED):
        return eager
    if out.itemsize not in (1, 2, 4, 8):
        return eager

    def prepare(loop: Loop) -> Kernel:
        run = _shared(loop, geometry)

        def into(out: Array, values: Array, index: Array) -> None:
            if np.may_share_memory(out, values) or np.may_share_memory(out, index):
                eager(out, values, index)
                return
            run(out, values, index, failed := np.zeros((), np.int64))
            if not failed:
                return
            if added is None:
                eager(out, values, index)
            else:
                added(index)
                raise RuntimeError("another thread changed the index while its elements were written")

        return into

    name = "scatter_add" if adds else "scatter"
    return _until_compiled(name, elements, geometry, eager, prepare)


def _shared(loop: Loop, geometry: IndexGeometry) -> Loop:
    work = geometry.outer * geometry.picked * geometry.inner
    return shared_loop(loop, geometry.parts(), Sharing.of(work, SHARED_FROM, WAKING_FROM), None)


def _until_compiled(
    name: str, elements: str, geometry: IndexGeometry, eager: Kernel, prepare: Callable[[Loop], Kernel]
) -> Kernel:
    deferred = _loop(name, elements, geometry.is_flat, *geometry.moves)
    return eager_until_compiled(eager, deferred, geometry.outer * geometry.picked * geometry.inner, prepare)


@functools.cache
def _loop(name: str, elements: str, flat: bool, index_moves: bool, small_moves: bool) -> DeferredLoop:
    def make() -> Loop | None:
        from .index_loop import index_loop

        return index_loop(name, elements, flat, index_moves, small_moves)

    return DeferredLoop(make, COMPILE_THRESHOLD)
