"""Triton kernels of the runtime's checks: small, and each with something that only a card can show."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import cuda as extra


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    """Compute out = a + b for `n` elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(a + i, mask=mask, other=0.0) + tl.load(b + i, mask=mask, other=0.0), mask=mask)


@triton.jit
def nine_arguments(a, b, out, n, p, q, r, s, t, BLOCK: tl.constexpr):
    """Compute out = a * p + b * q + r + s + t, with as many arguments as a usual kernel."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(a + i, mask=mask, other=0.0) * p + tl.load(b + i, mask=mask, other=0.0) * q
    tl.store(out + i, x + r + s + t, mask=mask)


@triton.jit
def product(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Compute out = a @ b, row-major, with sizes that are multiples of the blocks, using much shared memory."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


@triton.jit
def copy_tiles(source, out, N, BM: tl.constexpr, BN: tl.constexpr):
    """Copy a matrix through a tensor descriptor given by value."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    tile = source.load([row, column])
    rows = row + tl.arange(0, BM)
    columns = column + tl.arange(0, BN)
    tl.store(out + rows[:, None] * N + columns[None, :], tile)


@triton.jit
def increment_after_dependency(x, n, BLOCK: tl.constexpr):
    """Compute x += 1 after the previous launch, as programmatic dependent launch requires."""
    extra.gdc_wait()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(x + i, tl.load(x + i, mask=mask, other=0.0) + 1.0, mask=mask)
    extra.gdc_launch_dependents()


@triton.jit
def spin(out, steps):
    """Keep one multiprocessor busy for `steps` dependent multiplications."""
    x = tl.load(out)
    for _ in range(steps):
        x = x * 0.999 + 0.001
    tl.store(out, x)


@triton.jit
def copy(source, out, n, BLOCK: tl.constexpr):
    """Copy source to out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(source + i, mask=mask, other=0.0), mask=mask)
