"""Einstein summation by the operators that PyTorch dispatches: batched matmuls of operands with all labels.

A dispatch mode sees these steps. Without a mode, `einsum` contracts operands with their own labels, which takes fewer
views. Source: ATen/native/Linear.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..generated import functions as ops

if TYPE_CHECKING:
    from ..tensor import Tensor


def contracted(
    operands: Sequence[tuple[Tensor, tuple[Any, ...]]],
    output: tuple[Any, ...],
    steps: Sequence[tuple[int, int]],
    has_path: bool,
) -> Tensor:
    """Contract operands pair by pair.

    Args:
        operands: Each tensor with one label for each dimension.
        output: Labels of the result.
        steps: The positions of each pair among the operands that are left.
        has_path: True if the caller chose the pairs. The result of a pair is then the last operand, else the first.

    Returns:
        The sum, with the dimensions of `output`.
    """
    summed_labels = {label for _, labels in operands for label in labels} - set(output)
    ellipsis = sorted(label for label in summed_labels if isinstance(label, int))
    order = (*output, *ellipsis, *sorted(label for label in summed_labels if isinstance(label, str)))
    pending = [_with_all_labels(x, labels, order) for x, labels in operands]
    first_summed, rank = len(output), len(order)
    counts = [sum(x._spec.sizes[d] != 1 for x in pending) for d in range(rank)]
    for pair in steps if has_path else [(0, 1)] * len(steps):
        low, high = sorted(pair)
        right, left = pending.pop(high), pending.pop(low)
        product = _product(left, right, counts, first_summed)
        pending.insert(len(pending) if has_path else 0, product)
    (made,) = pending
    if rank == first_summed:
        return made
    if len(operands) > 1:
        return made.view(made._spec.sizes[:first_summed])
    return ops.sum(made, list(range(first_summed, rank)))


def _with_all_labels(x: Tensor, labels: tuple[Any, ...], order: tuple[Any, ...]) -> Tensor:
    """Return a view with a dimension for each label of `order`, of size 1 for a label that the operand lacks."""
    own_labels = list(labels)
    for label in order:
        if label not in labels:
            x = x.unsqueeze(-1)
            own_labels.append(label)
    return x.permute([own_labels.index(label) for label in order])


def _product(left: Tensor, right: Tensor, counts: list[int], first_summed: int) -> Tensor:
    """Multiply a pair, and sum each dimension that no other operand has. `counts` are the operands of a dimension."""
    alone: tuple[list[int], list[int]] = ([], [])
    summed = []
    for d in range(first_summed, len(counts)):
        sizes = left._spec.sizes[d], right._spec.sizes[d]
        if 1 not in sizes:
            counts[d] -= 1
            if counts[d] == 1:
                summed.append(d)
                counts[d] = 0
        elif counts[d] == 1 and sizes != (1, 1):
            alone[sizes[0] == 1].append(d)
            counts[d] = 0
    left = ops.sum(left, alone[0], True) if alone[0] else left
    right = ops.sum(right, alone[1], True) if alone[1] else right
    return _batched(left, right, summed) if summed else ops.mul(left, right)


def _batched(left: Tensor, right: Tensor, summed: list[int]) -> Tensor:
    """Multiply a pair as batched matrices, and keep the summed dimensions with size 1."""
    mine, theirs = left._spec.sizes, right._spec.sizes
    kept_dims = [d for d in range(len(mine)) if d not in summed]
    batch = [d for d in kept_dims if mine[d] != 1 and theirs[d] != 1]
    rows = [d for d in kept_dims if mine[d] != 1 and theirs[d] == 1]
    columns = [d for d in kept_dims if mine[d] == 1]

    def size(lengths: Sequence[int], dims: Sequence[int]) -> int:
        return math.prod(lengths[d] for d in dims)

    batches, inner = size(mine, batch), size(mine, summed)
    first = left.permute([*batch, *rows, *summed, *columns]).reshape((batches, size(mine, rows), inner))
    second = right.permute([*batch, *summed, *columns, *rows]).reshape(
        (batches, inner, size(theirs, columns))
    )
    made = ops.bmm(first, second)
    order = [*batch, *rows, *summed, *columns]
    sizes = [1 if d in summed else theirs[d] if d in columns else mine[d] for d in order]
    return made.view(sizes).permute([order.index(d) for d in range(len(order))])
