"""Grids of two or three axes in one: CUDA allows 2**31 - 1 blocks along x, but only 65535 along y and z.

An axis that grows with a tensor is therefore never y or z. The launcher multiplies the sizes of the axes (`folded`),
and the kernel divides its program's number again (`place_in_grid`). Programs keep the order of the unfolded grid: the
first axis varies fastest.
"""

from __future__ import annotations

import math

from ..runtime.cuda.driver import Grid
from ..runtime.cuda.triton.lazy_triton import tl, triton


def folded(*sizes: int) -> Grid:
    """Return the grid of one axis that has the programs of all these.

    Example:
        >>> from triten.triton_kernels.folded_grid import folded
        >>> folded(2, 100_352)
        (200704, 1, 1)
    """
    return math.prod(sizes), 1, 1


@triton.jit
def place_in_grid(first):
    """Return a program's numbers along the first axis, of this size, and along the second one."""
    program = tl.program_id(0)
    return program % first, program // first
