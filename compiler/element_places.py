"""Strides of an operand's elements in terms of a matmul's batch, row and column."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.tensor_spec import TensorSpec
from ..triton_kernels.geometry import broadcast_strides

Terms = tuple[tuple[int, int, int], ...]
"""An offset along an index: the sum of ``index // divisor % size * stride``."""


def grouped_terms(
    spec: TensorSpec, domain: Sequence[int], sizes: Sequence[int]
) -> tuple[Terms, Terms, Terms] | None:
    """Return the address terms of an operand by a matmul's batch, row and column; None if these do not determine it.

    Args:
        spec: The operand.
        domain: The sizes to which it is broadcast, with as many elements as the matmul's result.
        sizes: The matmul's batch, rows and columns.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.element_places import grouped_terms
        >>> grouped_terms(tt.ones(4, 1, 16)._spec, (4, 2, 16), (1, 8, 16))
        ((), ((2, 4, 16),), ((1, 16, 1),))
        >>> grouped_terms(tt.ones(64)._spec, (2, 64), (1, 8, 16)) is None
        True
    """
    strides = broadcast_strides(spec, domain)
    groups: list[Terms] = []
    dim = len(domain)
    for size in reversed(sizes):
        covered = 1
        terms: list[tuple[int, int, int]] = []
        while covered < size:
            dim -= 1
            if dim < 0:
                return None
            length, stride = domain[dim], strides[dim]
            if length > 1:
                if terms and stride == terms[-1][1] * terms[-1][2]:
                    divisor, inner, step = terms[-1]
                    terms[-1] = divisor, inner * length, step
                else:
                    terms.append((covered, length, stride))
            covered *= length
        if covered != size:
            return None
        groups.append(tuple(term for term in terms if term[2]))
    columns, rows, batch = groups
    return batch, rows, columns


def permuted(spec: TensorSpec, domain: Sequence[int], order: Sequence[int]) -> TensorSpec:
    """Return an operand broadcast to a domain, with its dimensions permuted."""
    strides = broadcast_strides(spec, domain)
    return spec.replace(sizes=tuple([domain[i] for i in order]), strides=tuple([strides[i] for i in order]))


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Return the dimensions in memory order, outermost first; None if the elements have gaps.

    Example:
        >>> from triten.compiler.element_places import memory_order
        >>> memory_order((2, 3, 4), (12, 1, 3)), memory_order((2, 3), (4, 1)) is None
        ((0, 2, 1), True)
    """
    order = tuple(sorted(range(len(sizes)), key=lambda i: (sizes[i] != 1, -strides[i])))
    expected = 1
    for i in reversed(order):
        if sizes[i] != 1 and strides[i] != expected:
            return None
        expected *= sizes[i]
    return order
