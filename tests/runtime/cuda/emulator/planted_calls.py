"""Calls for fault injection: each with its kernel's name, the function, and its arguments.

The sizes reach all code: more tiles than programs, partial tiles, and loops of several iterations.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt

RNG = np.random.default_rng(3)
TARGET = os.environ.get("TRITEN_EMULATE") or "80"
"""The target whose kernels are emulated."""


def numbers(*sizes: int, dtype: Any = tt.float32) -> Any:
    return tt.from_numpy(RNG.standard_normal(sizes).astype(np.float32)).to(dtype)


F = tt.nn.functional
tt.backends.cudnn.allow_tf32 = False
CALLS: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    "add": ("dense", lambda a, b: a + b, [numbers(1111), numbers(1111)]),
    "strided add": ("tiles", lambda a, b: a.t() + b, [numbers(137, 153), numbers(153, 137)]),
    "softmax": ("softmax", lambda a: tt.softmax(a, 1), [numbers(5, 3001)]),
    "sum of rows": ("reduce", lambda a: a.sum(1), [numbers(37, 1030)]),
    "sum of short rows": ("reduce", lambda a: a.sum(1), [numbers(301, 9)]),
    "sum of all": ("reduce", lambda a: a.sum(), [numbers(60_001)]),
    "sum of columns": ("reduce", lambda a: a.sum(0), [numbers(1030, 137)]),
    "layer_norm": (
        "normalise_rows",
        lambda a, w: F.layer_norm(a, (777,), w),
        [numbers(9, 777), numbers(777)],
    ),
    "cumsum": ("prefix_scan", lambda a: a.cumsum(1), [numbers(7, 3000)]),
    "cumsum of long rows": ("prefix_scan", lambda a: a.cumsum(1), [numbers(3, 20_001)]),
    "mm": ("matmul", tt.mm, [numbers(100, 72), numbers(72, 90)]),
    "mm of halves": ("matmul", tt.mm, [numbers(96, 64, dtype=tt.float16), numbers(64, 80, dtype=tt.float16)]),
    "largest of rows": ("extreme_with_index", lambda a: a.max(1).indices, [numbers(33, 501)]),
    "sort": ("sort_rows", lambda a: a.sort(1).values, [numbers(5, 300)]),
    "embedding": ("pick_runs", lambda i, t: F.embedding(i, t), [tt.tensor([3, 0, 9, 5, 5]), numbers(10, 37)]),
    "conv2d": (
        "convolve",
        lambda x, w: F.conv2d(x, w, groups=2),
        [numbers(2, 10, 9, 9), numbers(6, 5, 3, 3)],
    ),
    "var": ("reduce_moments", lambda a: a.var(1), [numbers(13, 901)]),
}


def halves(*sizes: int) -> Any:
    return numbers(*sizes, dtype=tt.bfloat16)


def pictures(*sizes: int) -> Any:
    return halves(*sizes).to(memory_format=tt.channels_last)


CALLS_BY_UNITS: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    "mm": ("matmul_persistent", tt.mm, [halves(200, 328), halves(328, 152)]),
    "attention": (
        "attention_bulk",
        F.scaled_dot_product_attention,  # of few queries, which the warp-specialised kernel leaves to this one
        [halves(1, 2, 50, 64), halves(1, 2, 150, 64), halves(1, 2, 150, 64)],
    ),
    "attention of narrow heads": (
        "attention_bulk",
        F.scaled_dot_product_attention,
        [halves(1, 2, 200, 32), halves(1, 2, 150, 32), halves(1, 2, 150, 32)],
    ),
    "conv2d": (
        "convolve_bulk",
        lambda x, w: F.conv2d(x, w, padding=1),
        [pictures(5, 64, 9, 9), pictures(128, 64, 3, 3)],
    ),
}
