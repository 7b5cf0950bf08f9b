"""Selection of a brief run: operators with their own kernels, and a random sample of composite operators.

A composite operator has no kernel of its own for the device; a check may also declare itself composite. Full
runs take all of them. Interpreter runs also do, because they compile nothing.
"""

from __future__ import annotations

import zlib

import numpy as np

from .cases import Case
from .operators import has_own_kernel

GRADIENTS, ROWS, COMPOSITIONS = 8, 2, 8
"""One operator of so many has its gradients taken; one row of so many is run, of those behind the first one of an
operator with kernels, and of an operator that is composed."""
WITH_KERNELS_OF_GRADIENTS = ("scaled_dot_product_attention", "ctc_loss.IntList")
"""Operators whose gradients launch kernels that nothing else in a first pass does."""
WITH_KERNELS_OF_ROWS = (
    *("scaled_dot_product_attention#0", "ctc_loss.IntList#0", "embedding_bag#0"),
    *("multinomial#1", "pow.Tensor_Scalar#1"),
)
"""Rows that launch kernels, or whose gradients do, which nothing else in a first pass does."""


def is_drawn(name: str, seed: int, count: int) -> bool:
    """Return True for a random one in `count` names, chosen by the seed."""
    return bool(np.random.default_rng([seed, zlib.crc32(name.encode())]).integers(count) == 0)


def takes_gradients(operator: str, seed: int) -> bool:
    """Return True if a brief run checks the gradients of an operator."""
    return operator in WITH_KERNELS_OF_GRADIENTS or is_drawn(operator, seed, GRADIENTS)


def takes_case(case: Case, seed: int) -> bool:
    """Return True if a brief run includes a case."""
    row = f"{case.operator}#{case.row}"
    if has_own_kernel(case.operator):
        return case.row == 0 or row in WITH_KERNELS_OF_ROWS or is_drawn(row, seed, ROWS)
    return row in WITH_KERNELS_OF_ROWS or is_drawn(row, seed, COMPOSITIONS)
