"""Ragged dimension of a jagged tensor: offsets, lengths, and the size that represents them in shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, SupportsIndex
from weakref import WeakValueDictionary

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.device import device as Device
from ..runtime.scalar_type import int64
from ..runtime.size import Size

_numbers = itertools.count(1)


class RaggedSize:
    """Size of a ragged dimension: the lengths of a batch's sequences, under a name such as ``j1``.

    It is not an integer: a use as one raises TypeError instead of computing a wrong number. It equals itself, is at
    least 0, and can be multiplied by integers, like sizes and strides.
    """

    __slots__ = ("factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number = number
        self.factor = factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash((RaggedSize, self.number, self.factor))

    def __mul__(self, other: Any) -> RaggedSize:
        return RaggedSize(self.number, self.factor * other) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __ge__(self, other: object) -> bool:
        if self == other or (isinstance(other, int) and other <= 0):
            return True
        raise ValueError(
            f"{self} >= {other}: the relation is indeterminate, since {self} stands for several lengths"
        )

    def __lt__(self, other: object) -> bool:
        return not self >= other

    def __index__(self) -> int:
        raise TypeError(
            f"{self} stands for the lengths of the sequences of a nested tensor and is no integer; "
            "nested_tensor.offsets() has them"
        )


class NestedSize(Size):
    """A `Size` of which one element is a `RaggedSize`."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> NestedSize:
        """Create a size from integers and ragged sizes."""
        return tuple.__new__(cls, sizes)

    def numel(self) -> Any:
        """Return the product of the sizes, which is ragged."""
        return math.prod(self)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        picked = tuple.__getitem__(self, index)
        return NestedSize(picked) if isinstance(picked, tuple) else picked

    def __add__(self, other: tuple[Any, ...]) -> NestedSize:
        return NestedSize(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[Any, ...]) -> NestedSize:
        return NestedSize((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __reduce__(self) -> Any:
        return NestedSize, (tuple(self),)


class Raggedness:
    """Division of a packed dimension into sequences.

    Operators accept two nested tensors that share one `Raggedness`. `of` makes it once for the same tensors of
    offsets and lengths. Values on a device are read once.

    Args:
        offsets: The start of each sequence, and the end of the last one; int64 or int32.
        lengths: The length of each sequence, if there are holes between them.
        size: The size that represents it in shapes.
        min_seqlen: The minimum length, if it is known.
        max_seqlen: The maximum length, if it is known.
    """

    __slots__ = (
        "__weakref__", "_bounds", "_max", "_min", "_moved", "_packed", "_positions", "_rows", "lengths", "offsets",
        "size",
    )  # fmt: skip

    def __init__(
        self,
        offsets: Tensor,
        lengths: Tensor | None = None,
        size: RaggedSize | None = None,
        min_seqlen: int | None = None,
        max_seqlen: int | None = None,
    ) -> None:
        self.offsets = offsets
        self.lengths = lengths
        self.size = RaggedSize(next(_numbers)) if size is None else size
        self._min, self._max = min_seqlen, max_seqlen
        self._bounds: list[tuple[int, int]] | None = None
        self._rows: Tensor | None = None
        self._positions: dict[int, Tensor] = {}
        self._moved: dict[Device, Raggedness] = {}
        self._packed: Raggedness | None = None

    @classmethod
    def of(
        cls,
        offsets: Tensor,
        lengths: Tensor | None = None,
        min_seqlen: int | None = None,
        max_seqlen: int | None = None,
    ) -> Raggedness:
        """Return the raggedness of these tensors, by identity."""
        key = (id(offsets), id(lengths))
        raggedness = _known.get(key)
        if raggedness is None:
            raggedness = _known[key] = cls(offsets, lengths, None, min_seqlen, max_seqlen)
        raggedness._min = raggedness._min if min_seqlen is None else min_seqlen
        raggedness._max = raggedness._max if max_seqlen is None else max_seqlen
        return raggedness

    @classmethod
    def of_lengths(cls, lengths: list[int], device: Device, size: RaggedSize | None = None) -> Raggedness:
        """Describe contiguous sequences with lengths that are known on the host."""
        starts = [0, *itertools.accumulate(lengths)]
        made = cls(_integers(starts, device), None, size)
        made._bounds = list(zip(starts, lengths, strict=False))
        return made

    @property
    def batch_size(self) -> int:
        """The number of sequences."""
        return int(self.offsets.shape[0]) - 1

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Start and length of each sequence, on the host."""
        if self._bounds is None:
            starts = self.offsets.tolist()
            ends = itertools.pairwise(starts)
            lengths = [e - s for s, e in ends] if self.lengths is None else self.lengths.tolist()
            self._bounds = list(zip(starts, lengths, strict=False))
        return self._bounds

    @property
    def max_seqlen(self) -> int:
        """The greatest length; 0 for no sequences."""
        if self._max is None:
            self._max = max((length for _, length in self.bounds), default=0)
        return self._max

    @property
    def min_seqlen(self) -> int:
        """The least length; 0 for no sequences."""
        if self._min is None:
            self._min = min((length for _, length in self.bounds), default=0)
        return self._min

    @property
    def segment_lengths(self) -> Tensor:
        """The lengths as a tensor."""
        return ops.diff(self.offsets) if self.lengths is None else self.lengths

    @property
    def rows(self) -> Tensor:
        """The sequence of each position of the packed dimension."""
        if self._rows is None:
            lengths = [length for _, length in self.bounds]
            batch = ops.arange(len(lengths), device=self.offsets.device)
            self._rows = ops.repeat_interleave(batch, self.segment_lengths, output_size=sum(lengths))
        return self._rows

    def positions(self, width: int) -> Tensor:
        """Return, for each position of the packed dimension, its index in a flattened batch padded to `width`."""
        indices = self._positions.get(width)
        if indices is None:
            total = sum(length for _, length in self.bounds)
            inside = ops.arange(total, device=self.offsets.device) - self.packed().offsets[:-1][self.rows]
            indices = self._positions[width] = self.rows * width + inside
        return indices

    def mask(self) -> Tensor:
        """Return the padding mask (batch, max_seqlen): True where a sequence has a position."""
        positions = ops.arange(self.max_seqlen, device=self.offsets.device)
        return positions < self.segment_lengths.unsqueeze(1)

    def packed(self) -> Raggedness:
        """Return sequences of the same lengths without holes between them."""
        if self.lengths is None:
            return self
        if self._packed is None:
            lengths = [length for _, length in self.bounds]
            self._packed = Raggedness.of_lengths(lengths, self.offsets.device)
        return self._packed

    def kept_positions(self) -> Tensor:
        """Return the positions that `packed` keeps, in order."""
        starts = self.offsets[:-1]
        inside = (
            ops.arange(int(self.rows.shape[0]), device=starts.device) - self.packed().offsets[:-1][self.rows]
        )
        return starts[self.rows] + inside

    def to(self, device: Device) -> Raggedness:
        """Copy to a device; the size stays the same object."""
        if self.offsets.device == device:
            return self
        moved = self._moved.get(device)
        if moved is None:
            lengths = None if self.lengths is None else self.lengths.to(device)
            moved = Raggedness(self.offsets.to(device), lengths, self.size, self._min, self._max)
            moved._bounds = self._bounds
            self._moved[device] = moved
        return moved


_known: WeakValueDictionary[tuple[int, int], Raggedness] = WeakValueDictionary()


def _integers(values: list[int], device: Device) -> Tensor:
    from ..dispatch.tensor_data import tensor

    return tensor(values, dtype=int64, device=device)


def pad(values: Tensor, raggedness: Raggedness, dim: int, padding: Any, width: int | None = None) -> Tensor:
    """Pad sequences to one length.

    Args:
        values: The elements, packed along `dim` without holes.
        raggedness: The division of `dim` into sequences.
        dim: The packed dimension, which becomes dimension `dim` + 1 of the result.
        padding: The value of the padding.
        width: The length of the padded sequences. Default: the maximum length.

    Returns:
        A tensor with one more dimension: (batch, ...).
    """
    width = raggedness.max_seqlen if width is None else width
    rows = values.movedim(dim, 0)
    batch = raggedness.batch_size
    flat = rows.new_full((batch * width, *rows.shape[1:]), padding)
    filled = flat.index_copy(0, raggedness.positions(width), rows)
    return filled.view(batch, width, *rows.shape[1:]).movedim(1, dim + 1)


def unpad(padded: Tensor, raggedness: Raggedness, dim: int) -> Tensor:
    """Remove the padding of a batch; return the values packed along `dim` - 1."""
    rows = padded.movedim(dim, 1)
    flat = rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])
    return flat.index_select(0, raggedness.positions(int(rows.shape[1]))).movedim(0, dim - 1)
