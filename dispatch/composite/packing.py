"""Sequences of different lengths, padded or packed (ATen/native/PackedSequence.cpp, TensorFactories' pad_sequence).

A packed tensor has the rows of the first step first, then those of the second step, and so on. The number of sequences
never increases. Consecutive steps with the same number of sequences form a run, which is one view of the padded tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import int64
from ..generated import functions as ops
from ..structured.operand_checks import check_dtype, check_ranks
from ..tensor_data import tensor

if TYPE_CHECKING:
    from ..tensor import Tensor


def _check_lengths(tensor: Tensor) -> None:
    if tensor.dim() != 1 or tensor.device.type != "cpu" or tensor.dtype is not int64:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{tensor.dim()}D {tensor.device} {tensor.dtype.scalar_name} tensor"
        )


def runs(batch_sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of steps as (number of steps, number of sequences).

    >>> runs([3, 3, 1])
    [(2, 3), (1, 1)]
    """
    return [(len(list(steps)), size) for size, steps in itertools.groupby(batch_sizes)]


def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """Return the rows of all steps, and the number of rows of each step, on the host."""
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    _check_lengths(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    known = [int(n) for n in lengths.tolist()]
    batch = input.size(1)
    if len(known) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(known)} (batch_size={batch})"
        )
    if known[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(later > earlier for earlier, later in itertools.pairwise(known)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    steps: list[Any] = []
    sizes: list[int] = []
    begin = 0
    for count, group in itertools.groupby(range(batch - 1, -1, -1), key=lambda at: known[at]):
        first = max(group)
        if count > begin:
            part = input.narrow(0, begin, count - begin).narrow(1, 0, first + 1)
            steps.append(part.reshape((-1, *input.shape[2:])))
            sizes += [first + 1] * (count - begin)
        begin = count
    return ops.cat(steps), tensor(sizes, dtype=int64)


def _pack_padded_sequence_backward(
    grad: Tensor, input_size: Sequence[int], batch_sizes: Tensor, batch_first: bool
) -> Tensor:
    """Compute the gradient of the padded tensor, zero in the padding."""
    size = list(input_size)
    if len(size) < 2:
        raise RuntimeError(
            f"_pack_padded_sequence_backward: expected 2 or more sizes in input_size, got {size}"
        )
    check_ranks("_pack_padded_sequence_backward", "batch_sizes", batch_sizes._spec, 1)
    check_dtype("_pack_padded_sequence_backward", "batch_sizes", batch_sizes._spec, int64)
    if batch_first:
        size[0], size[1] = size[1], size[0]
    made = _padded(grad, batch_sizes, size[1], size[0], 0)
    return made.transpose(0, 1) if batch_first else made


def _padded(data: Tensor, batch_sizes: Tensor, batch: int, length: int, value: float) -> Tensor:
    """Return (length, batch, ...) of packed rows, with `value` as padding."""
    shape = data.shape[1:]
    parts = []
    begin, steps = 0, 0
    for count, rows in runs([int(n) for n in batch_sizes.tolist()]):
        part = data.narrow(0, begin, count * rows).reshape((count, rows, *shape))
        if rows < batch:
            part = ops.constant_pad_nd(part, [0, 0] * len(shape) + [0, batch - rows], value)
        parts.append(part)
        begin, steps = begin + count * rows, steps + count
    if steps < length:
        parts.append(data.new_full((length - steps, batch, *shape), value))
    return ops.cat(parts)


def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    """Return the padded sequences, and their lengths on the host."""
    _check_lengths(batch_sizes)
    sizes = [int(n) for n in batch_sizes.tolist()]
    longest = len(sizes)
    if total_length > 0:
        if total_length < longest:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    made = _padded(data, batch_sizes, sizes[0], longest, padding_value)
    lengths = [sum(size > step for size in sizes) for step in range(sizes[0])]
    return made.transpose(0, 1) if batch_first else made, tensor(lengths, dtype=int64)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool, padding_value: float, padding_side: str
) -> Tensor:
    """Return `torch.nn.utils.rnn.pad_sequence`: (T, N, ...) of N sequences of up to T steps."""
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    first = sequences[0]
    longest = max(each.size(0) for each in sequences)
    trailing = [0, 0] * (first.dim() - 1)

    def padded(sequence: Tensor) -> Tensor:
        missing = longest - sequence.size(0)
        amounts = [missing, 0] if padding_side == "left" else [0, missing]
        sequence = sequence.to(first.dtype).expand((sequence.size(0), *first.shape[1:]))
        return ops.constant_pad_nd(sequence, [*trailing, *amounts], padding_value)

    return ops.stack([padded(each) for each in sequences], 0 if batch_first else 1)
