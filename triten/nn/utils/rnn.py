"""Sequences of different lengths in one batch: padded to the longest, or packed (`torch.nn.utils.rnn`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor_data import as_tensor
from ...runtime.scalar_type import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ...runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _moved(tensor: Tensor | None, move: Callable[[Tensor], Tensor]) -> Tensor | None:
    return None if tensor is None else move(tensor)


class PackedSequence(_Fields):
    """Packed time steps of several sequences, without padding (`torch.nn.utils.rnn.PackedSequence`).

    `pack_padded_sequence` and `pack_sequence` make them; all recurrent layers take them.

    Args:
        data: the rows of the first step, then those of the second, of fewer and fewer sequences.
        batch_sizes: int64 on the CPU: how many sequences reach each step.
        sorted_indices: The permutation that sorts sequences by descending length; None if already sorted.
        unsorted_indices: the inverse.

    Raises ValueError for `batch_sizes` on another device.

    Example:
        >>> import triten as tt
        >>> packed = tt.nn.utils.rnn.pack_sequence([tt.tensor([1, 2, 3]), tt.tensor([4])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert `data` as `Tensor.to` does, and move the indices to its device; return self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(data.device, non_blocking=bool(kwargs.get("non_blocking", False)))

        return type(self)(
            data,
            self.batch_sizes,
            _moved(self.sorted_indices, move),
            _moved(self.unsorted_indices, move),
        )

    def _on(self, device_type: str, *args: Any, **kwargs: Any) -> Self:
        probe = _ops.empty((0,), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        if probe.device.type != device_type:
            kwargs["device"] = device_type
        return self.to(*args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Copy to a CUDA device."""
        return self._on("cuda", *args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Copy to the CPU."""
        return self._on("cpu", *args, **kwargs)

    def pin_memory(self) -> Self:
        """Copy to page-locked host memory."""
        indices = (_moved(tensor, lambda t: t.pin_memory()) for tensor in self[2:])
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def double(self) -> Self:
        """Convert to float64."""
        return self.to(dtype=float64)

    def float(self) -> Self:
        """Convert to float32."""
        return self.to(dtype=float32)

    def half(self) -> Self:
        """Convert to float16."""
        return self.to(dtype=float16)

    def long(self) -> Self:
        """Convert to int64."""
        return self.to(dtype=int64)

    def int(self) -> Self:
        """Convert to int32."""
        return self.to(dtype=int32)

    def short(self) -> Self:
        """Convert to int16."""
        return self.to(dtype=int16)

    def char(self) -> Self:
        """Convert to int8."""
        return self.to(dtype=int8)

    def byte(self) -> Self:
        """Convert to uint8."""
        return self.to(dtype=uint8)

    @property
    def is_cuda(self) -> bool:
        """True if `data` is on a CUDA device."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Return whether `data` is in pinned (page-locked) host memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Invert a permutation; None stays None (`torch.nn.utils.rnn.invert_permutation`).

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.rnn.invert_permutation(tt.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = _ops.empty(permutation.shape, dtype=permutation.dtype, device=permutation.device)
    positions = _ops.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return inverse.scatter_(0, permutation, positions)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences (`torch.nn.utils.rnn.pack_padded_sequence`).

    Args:
        input: (T, N, ...), or (N, T, ...) if `batch_first`.
        lengths: The length of each sequence, integers or a tensor on the CPU.
        enforce_sorted: If True, lengths must descend; else sequences are sorted here. Default: True.

    Raises RuntimeError for lengths that are not positive, as many as sequences, or descending where they must.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
        >>> tt.nn.utils.rnn.pack_padded_sequence(x, [2, 1, 3], batch_first=True, enforce_sorted=False).data
        tensor([4, 1, 3, 5, 2, 6])
    """
    if isinstance(lengths, TensorImpl):
        known: Tensor = lengths
        known = known.to(dtype=int64)
    else:
        known = as_tensor(lengths, dtype=int64, device="cpu")
    order = None
    if not enforce_sorted:
        known, order = known.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = _ops._pack_padded_sequence(input, known, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Unpack to padded sequences and their lengths, the inverse of packing (`torch.nn.utils.rnn.pad_packed_sequence`).

    Args:
        batch_first: If True, the result is (N, T, ...) instead of (T, N, ...). Default: False.
        padding_value: The value after a sequence's end.
        total_length: The length T of the result. Default: the longest length.

    Raises:
        ValueError: `total_length` is less than the longest length.

    Example:
        >>> import triten as tt
        >>> rnn = tt.nn.utils.rnn
        >>> rnn.pad_packed_sequence(rnn.pack_sequence([tt.tensor([1, 2]), tt.tensor([3])]), True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    padded, lengths = _ops._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences (L, ...), each padded to the longest (`torch.nn.utils.rnn.pad_sequence`).

    Args:
        batch_first: If True, the result is (N, T, ...) instead of (T, N, ...). Default: False.
        padding_value: The value that pads shorter sequences.
        padding_side: ``right`` or ``left``, the side of the padding. Default: ``right``.

    Raises:
        RuntimeError: There are no sequences, or `padding_side` is invalid.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.rnn.pad_sequence([tt.tensor([1, 2]), tt.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    return _ops.pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Cut each sequence to its own length (`torch.nn.utils.rnn.unpad_sequence`).

    Args:
        padded_sequences: (T, N, ...), or (N, T, ...) if `batch_first`.
        lengths: (N,) integers.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.rnn.unpad_sequence(tt.tensor([[1, 2], [3, 0]]), tt.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    each = zip(padded_sequences.unbind(0), lengths.tolist(), strict=True)
    return [sequence[: max(length, 0)] for sequence, length in each]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L, ...) of different lengths (`torch.nn.utils.rnn.pack_sequence`).

    Args:
        enforce_sorted: If True, lengths must descend; else sequences are sorted here. Default: True.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.rnn.pack_sequence([tt.tensor([1, 2, 3]), tt.tensor([4, 5])]).data
        tensor([1, 4, 2, 5, 3])
    """
    lengths = as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that were packed (`torch.nn.utils.rnn.unpack_sequence`).

    Example:
        >>> import triten as tt
        >>> rnn = tt.nn.utils.rnn
        >>> rnn.unpack_sequence(rnn.pack_sequence([tt.tensor([1, 2]), tt.tensor([3])]))
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
