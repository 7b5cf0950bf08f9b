"""Matmul problem as every kernel sees it: three dimensions, strides, and the epilogue of the sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...dispatch.scalars import fitting_number
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..conversion import type_name
from ..elementwise.elementwise import number_for
from ..geometry import broadcast_strides
from ..launch import INT32_MAX, cdiv, interpreted
from .product import Accumulation

Triple = tuple[int, int, int]

DIVISOR = 16
"""Divisor of integers that the compiler is told about."""


@dataclass(frozen=True)
class Matrices:
    """A batch of matrices: sizes and strides (batch, rows, columns), in elements."""

    sizes: Triple
    strides: Triple
    dtype: ScalarType

    @classmethod
    def of(cls, spec: TensorSpec) -> Matrices:
        """Return the view of a matrix, or of a batch of them."""
        if spec.ndim == 3:
            return cls(spec.sizes, spec.strides, spec.dtype)  # type: ignore[arg-type]
        return cls((1, *spec.sizes), (0, *spec.strides), spec.dtype)  # type: ignore[arg-type]

    @property
    def has_whole_vectors(self) -> bool:
        """True if the compiler sees line strides of whole vectors; else elements are loaded one by one.

        The compiler knows at most that 16 divides a stride.
        """
        near, far = sorted(self.strides[1:])
        return near == 1 and far % DIVISOR == 0


class Scales:
    """The runtime numbers `beta` and `alpha` of a product-sum: where they stand, and how they are passed.

    Each is passed only where the call has one; a beta of 0 at the call takes the variant without an addend.
    """

    def __init__(self, call: StructuredCall, how: Accumulation) -> None:
        self.position = {name: call.runtime.index(name) for name in ("alpha", "beta") if name in call.runtime}
        number, fitting = number_for(how.type), fitting_number(float32 if how.type == tl.float32 else float64)
        whole = how.type not in (tl.float32, tl.float64)
        self.number = number if whole else lambda value: number(fitting(value))
        self.type_name = type_name(how.type)
        self.drops_addend = "beta" not in self.position and call.args.get("beta") == 0

    def signature(self, has_addend: bool) -> tuple[dict[str, str], dict[str, object]]:
        """Types of the scales that are passed, and the others as constants."""
        passed = [name for name in self.position if has_addend or name == "alpha"]
        fixed = [name for name in ("alpha", "beta") if name not in passed]
        return dict.fromkeys(passed, self.type_name), dict.fromkeys(fixed)

    def values(self, inputs: Sequence[Any]) -> tuple[bool, list[int | float]]:
        """Return whether the addend counts, and the scales as kernel arguments."""
        beta = self.position.get("beta")
        has_addend = not self.drops_addend and (beta is None or inputs[beta] != 0)
        names = [name for name in self.position if has_addend or name == "alpha"]
        return has_addend, [self.number(inputs[self.position[name]]) for name in names]


@dataclass(frozen=True)
class Factors:
    """The scales of 8-bit operands and outputs, numbers in memory which a launch is given the addresses of.

    Args:
        row_wise: If True, there is a scale for each row of the left operand and each column of the right one.
        result: If True, an 8-bit output has a scale.
    """

    row_wise: bool
    result: bool

    def signature(self) -> dict[str, str]:
        """Return the types of the addresses."""
        names = ("scale_a", "scale_b", "scale_out") if self.result else ("scale_a", "scale_b")
        return dict.fromkeys(names, "*fp32")


class CannotFuse(Exception):
    """A product has a form whose kernel takes no fused epilogue; says which."""


@dataclass(frozen=True)
class Source:
    """Operand source: the tensor that a matmul's kernel loads to compute an operand in its prologue.

    Args:
        matrices: its elements, where the operand's are.
        most_repeats: Limit on loading and computing the operand again: once for each tile of the other side.
        is_narrow: If True, some source of the operand has fewer bits than the operand.
        is_volume: If True, a convolution copies it: images or filters, pixels or taps, and channels.
    """

    matrices: Matrices
    most_repeats: int
    is_narrow: bool
    is_volume: bool = False


@dataclass(frozen=True)
class FusedEpilogue:
    """Epilogue and prologue that a compiled graph fuses into a matmul's kernel.

    Args:
        kernel: Function from the name of an eager kernel, such as ``tiled`` or ``parts``, to the kernel that calls it
            with the functions of the compiled graph.
        pointers: Types of its addresses after those of the matmul, by name, in order.
        elements: those of one element.
        tiles: Number of operands and results with an element for each of the matmul's.
        is_channels_last: If True, it belongs to a channels-last convolution.
        sources: Sources loaded instead of the left and the right operand, if the kernel computes these.
        result: the dtype of the first result, which has the address of the product's.
        sums: the same of what makes the parts of a product whose inner side is cut and whose operands are computed, or
            lays out the operands of a convolution.
        computes_elements: If True, the epilogue computes with the elements; else the matmul's own kernel may serve.
    """

    kernel: Callable[[str], Any]
    pointers: Mapping[str, str]
    elements: tuple[str, ...]
    tiles: int
    is_channels_last: bool = False
    sources: tuple[Source | None, Source | None] = (None, None)
    result: ScalarType | None = None
    sums: FusedEpilogue | None = None
    computes_elements: bool = True

    @property
    def has_prologue(self) -> bool:
        """True if the kernel computes an operand."""
        return self.sources != (None, None)


@dataclass(frozen=True)
class Epilogue:
    """Epilogue of the sums: activation(alpha * sums + beta * addend).

    Args:
        addend: its strides, expanded to the output's three dimensions, and its dtype; None for no addend.
        scales: those of the call; None where there are none.
        activation: "relu", "gelu" or None.
        factors: those of 8-bit operands, applied before the addend.
        fused: Epilogue that computes with the result before or instead of its store.
    """

    addend: Matrices | None = None
    scales: Scales | None = None
    activation: str | None = None
    factors: Factors | None = None
    fused: FusedEpilogue | None = None

    @property
    def pointers(self) -> int:
        """Number of addresses that a launch takes after those of the operands and the output."""
        count = 0 if self.factors is None else len(self.factors.signature())
        return count + (self.addend is not None) + (0 if self.fused is None else len(self.fused.pointers))

    def scale_arguments(self, saturates: bool) -> tuple[dict[str, str], dict[str, object]]:
        """Return the types of the scales' addresses, and the kernel's constants for them."""
        factors = self.factors
        types = {} if factors is None else factors.signature()
        missing = (name for name in ("scale_a", "scale_b", "scale_out") if name not in types)
        row_wise = factors is not None and factors.row_wise
        return types, {**dict.fromkeys(missing), "ROW_WISE": row_wise, "SATURATES": saturates}

    def signature(self) -> tuple[dict[str, str], dict[str, object]]:
        """Types of the scales that a launch is given after the addresses, and the others as constants."""
        if self.scales is None:
            return {}, {"alpha": None, "beta": None}
        return self.scales.signature(self.addend is not None)


@dataclass(frozen=True)
class Problem:
    """out = epilogue(left @ right).

    `precision` is what `tl.dot` calls ``input_precision``; `imprecise` its ``max_num_imprecise_acc``: how many products
    of 8-bit floats the tensor cores of sm_90 may add before they are added in float32.
    """

    device: Device
    how: Accumulation
    left: Matrices
    right: Matrices
    out: Matrices
    epilogue: Epilogue
    precision: str
    imprecise: int | None = None

    @property
    def saturates(self) -> bool:
        """True if an 8-bit output saturates at its largest numbers."""
        return self.epilogue.factors is not None and self.out.dtype.itemsize == 1

    @property
    def batch(self) -> int:
        return self.out.sizes[0]

    @property
    def m(self) -> int:
        return self.out.sizes[1]

    @property
    def n(self) -> int:
        return self.out.sizes[2]

    @property
    def k(self) -> int:
        return self.left.sizes[2]

    @property
    def loaded(self) -> tuple[Matrices, Matrices]:
        """Matrices that a kernel loads for the left and the right operand: the operands or their sources."""
        fused = self.epilogue.fused
        left, right = (None, None) if fused is None else fused.sources
        return left.matrices if left else self.left, right.matrices if right else self.right

    @property
    def unlimited(self) -> Problem:
        """Return the problem without limits on recomputing operands and on the order of sums."""
        fused = self.epilogue.fused
        if fused is None or not fused.has_prologue:
            return self
        left, right = (
            None if source is None else replace(source, most_repeats=INT32_MAX, is_narrow=False)
            for source in fused.sources
        )
        fused = replace(fused, sources=(left, right))
        return replace(self, epilogue=replace(self.epilogue, fused=fused))

    def computes_seldom(self, tile: Sequence[int]) -> bool:
        """Return True if a tile of these rows and columns recomputes no operand more often than allowed."""
        fused = self.epilogue.fused
        left, right = (None, None) if fused is None else fused.sources
        repeats = (left, cdiv(self.n, tile[1])), (right, cdiv(self.m, tile[0]))
        return all(source is None or count <= source.most_repeats for source, count in repeats)

    def keeps_order(self, rows: int) -> bool:
        """Return True if tiles of `rows` rows accumulate computed operands in the order of loaded ones.

        For ``mma.sync``, which takes operands from registers (before sm_90, from sm_120 on, and below 64
        rows), the compiler orders K by the narrowest type that an operand comes from.
        """
        fused = self.epilogue.fused
        is_exact = self.left.dtype.itemsize > 2 and self.precision != "tf32"
        if fused is None or is_exact or interpreted():
            return True
        design = driver().properties(self.device.resolved_index).design
        return (90 <= design < 120 and rows >= 64) or not any(
            source and source.is_narrow for source in fused.sources
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Key of a configuration: m, n, k and the batch."""
        return self.m, self.n, self.k, self.batch


def expanded(addend: TensorSpec, out: TensorSpec) -> Matrices:
    """Return an addend broadcast to the output's sizes."""
    strides = (0, *broadcast_strides(addend, out.sizes))[-3:]
    return Matrices(Matrices.of(out).sizes, strides, addend.dtype)  # type: ignore[arg-type]


def multiprocessors(device: Device) -> int:
    """Return the number of multiprocessors of a device."""
    return driver().properties(device.resolved_index).multi_processor_count


def worthwhile_parts(problem: Problem, tiles: int, slots: int, least: int) -> int:
    """Return the number of split-K parts for a grid with fewer tiles than resident slots.

    A part is at least `least` long, and writing and reading the parts' sums takes at most half of the
    operands' bytes.
    """
    if interpreted():
        slots = 2 * tiles
    if 2 * tiles > slots:
        return 1
    m, n, k, batch = problem.shape
    operands = batch * k * (m + n) * problem.left.dtype.itemsize
    affordable = operands // (16 * batch * m * n)
    return max(1, min(slots // tiles, k // least, affordable))
