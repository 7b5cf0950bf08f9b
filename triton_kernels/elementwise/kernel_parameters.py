"""Sizes and strides as the parameters of an elementwise kernel: constexprs, and launch arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..geometry import Geometry
from ..launch import ALIGNMENT, Launch

MAX_DIMS = 6
BYTES = 4096
"""Bytes of an operand that a program of four warps reads: two 128-bit accesses for each thread."""
INTERPRETED_BLOCK = 16384
OPERANDS = ("out", "a", "b", "c", "d")


class Planned(NamedTuple):
    """A launch with its grid, and the numbers that it takes after the operands."""

    launch: Launch
    grid: tuple[int, int, int]
    numbers: tuple[int, ...]


def power_of_two_in(value: int, limit: int) -> int:
    """Return the largest power of two that divides `value`, at most `limit`.

    Example:
        >>> from triten.triton_kernels.elementwise.kernel_parameters import power_of_two_in
        >>> power_of_two_in(24, 16), power_of_two_in(32, 16), power_of_two_in(7, 16)
        (8, 16, 1)
    """
    return min(value & -value, limit) if value else limit


class Passed:
    """The signature, the constants and the numbers of a kernel over sizes and strides, as they come together.

    Args:
        signature: the operands' types.
        constexprs: the constants that do not depend on sizes.
        index: the type of sizes, strides and offsets, ``i32`` or ``i64``.
    """

    def __init__(self, signature: Mapping[str, str], constexprs: Mapping[str, object], index: str) -> None:
        self._signature = dict(signature)
        self._constexprs = {**constexprs, "INDEX": tl.int32 if index == "i32" else tl.int64}
        self._index = index
        self._values: list[int] = []
        self._elements: list[str] = []

    def constants(self, **values: object) -> None:
        """Add constexprs by name."""
        self._constexprs |= values

    def numbers(self, kind: str = "", **values: int) -> None:
        """Add launch arguments in the order of the kernel's parameters, of the type `kind` or of the index type."""
        for name, value in values.items():
            self._signature[name] = kind or self._index
            self._values.append(value)

    def sizes(self, sizes: Sequence[int], first: int = 1) -> None:
        """Add sizes ``n1``, ``n2``, ... of all dimensions but the last, by which indices are divided."""
        for i in range(first, MAX_DIMS - 1):
            dim = i - first
            if dim < len(sizes) - 1:
                self.numbers(**{f"n{i}": sizes[dim]})
            else:
                self.constants(**{f"n{i}": 1})

    def strides(
        self,
        geometry: Geometry,
        itemsizes: Sequence[int],
        contiguous: Sequence[int | None],
        wide: Sequence[str] = (),
    ) -> None:
        """Add each operand's strides, outer ones in units of a 128-bit access or the largest part that divides
        them all.

        Args:
            geometry: the output's strides and those of the operands.
            itemsizes: Item sizes of the output and the operands, 0 for a number.
            contiguous: the dimension along which each of them is accessed in vectors, None for no such one.
            wide: operands whose single elements are accessed in vectors.

        The alignment of operands that are accessed one by one does not matter to the launch.
        """
        for name, strides, itemsize, along in itertools.zip_longest(
            OPERANDS, geometry.strides, itemsizes, contiguous
        ):
            unit = 1
            if along is not None:
                outer_strides = [stride for i, stride in enumerate(strides) if i != along]
                unit = power_of_two_in(math.gcd(*outer_strides), ALIGNMENT // itemsize)
            if itemsize and (along is None or unit == 1) and name not in wide:
                self._elements.append(name)
            self.constants(**{f"UNIT_{name.upper()}": unit})
            for i in range(MAX_DIMS):
                stride = strides[i] if strides is not None and i < len(strides) else 0
                if i == along or stride == 0:
                    self.constants(**{f"{name}{i}": stride})
                else:
                    self.numbers(**{f"{name}{i}": stride // unit})

    def planned(self, call: StructuredCall, kernel: Any, programs: int, warps: int = 4) -> Planned:
        """Return the launch of `programs` programs."""
        launch = Launch(
            call.device,
            kernel,
            self._signature,
            self._constexprs,
            elements=self._elements,
            num_warps=warps,
        )
        return Planned(launch, (programs, 1, 1), tuple(self._values))


def split_outer(
    geometry: Geometry, specs: Sequence[TensorSpec | None]
) -> tuple[Geometry, list[tuple[int, ...]]]:
    """Return the geometry of one launch, and each operand's byte offsets at which it is repeated.

    The host iterates over dimensions beyond `MAX_DIMS` that do not coalesce.
    """
    inner = Geometry(geometry.sizes[:MAX_DIMS], tuple(s[:MAX_DIMS] for s in geometry.strides))
    outer = geometry.sizes[MAX_DIMS:]
    steps = [s[MAX_DIMS:] for s in geometry.strides]
    itemsizes = [0 if spec is None else spec.itemsize for spec in specs]
    return inner, [
        tuple(
            itemsize * sum(i * s for i, s in zip(index, own, strict=True))
            for itemsize, own in zip(itemsizes, steps, strict=True)
        )
        for index in itertools.product(*map(range, outer))
    ]
