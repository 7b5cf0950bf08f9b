"""Bitwise check of the instructions of a function or a reduction against eager kernels on this processor.

NumPy and BLAS have loops for several processors, and results differ between processors and versions. So each function
is compared at its first use, on some thousand numbers of all sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..runtime.cpu.element_loop import Loop
from ..runtime.cpu.element_program import ElementProgram
from ..runtime.cpu.elementary_functions import FUNCTIONS, RANGED
from ..runtime.cpu.hyperbolic_tangent import OWN_TANH
from ..runtime.cpu.llvm_source import write_loop
from ..runtime.cpu.object_code import loop_function, shared_function, target
from ..runtime.device import device as Device
from ..runtime.scalar_type import float32, float64
from ..runtime.tensor_spec import TensorSpec
from .normalization.moments import ones, row_dots
from .reduction.lane_sums import NUM_LANES, PIECE
from .reduction.line_code import VECTORS
from .reduction.line_reductions import RUN, line_sums
from .reduction.reduction_source import BLAS, LANE_SUMS, OWN, REDUCTIONS, reduction_text, rows_of, symbol_of
from .reduction.variance import moments_function

Array = np.ndarray[Any, Any]

RANDOM = 4096
"""Numbers of random bits, and as many of usual sizes."""
ROWS = 3
LENGTHS = (2, 3, 5, 16, 31, 37, 96, 129, 512, 1000, 1030, 1536, 4096, 4131, 9000)
"""How many rows of which lengths are reduced."""
EDGES = (0.0, 1.0, 2.0**-126, 2.0**-149, 88.0, 88.72284, 89.0, 87.33655, 103.97208, 104.0, 3.4028235e38)


def function_loop(name: str) -> Loop:
    """Return a function as a loop from one array of float32 to another."""
    program = ElementProgram(True, True)
    x = program.value("input", "float32", detail=0)
    write = FUNCTIONS[name] if name in FUNCTIONS else RANGED[name][0]
    return Loop((x,), ((write(program, x), "o0"),))


def computed(name: str, value: Array) -> Array:
    """Compute a function by instructions, of a contiguous array of float32."""
    out = np.empty_like(value)
    call = loop_function(write_loop(function_loop(name), ["unit", "unit"], 1))
    call(np.array([value.size, 0, 4, 0, 4], np.int64), out, value)
    return out


def reduction(name: str, width: int) -> Callable[..., Array]:
    """Return a function that reduces the rows of one float32 matrix, or of two, by instructions."""
    pointers = [ctypes.c_void_p] * rows_of(name)
    result = ctypes.c_double if REDUCTIONS[name] == "double" else ctypes.c_float
    prototype = ctypes.CFUNCTYPE(result, *pointers, ctypes.c_int64)
    call = prototype(shared_function(symbol_of(name, width), reduction_text(name, width), name in LANE_SUMS))

    def reduced(*args: Array) -> Array:
        count, n = args[0].shape
        results = [call(*(a[i].ctypes.data for a in args), n) for i in range(count)]
        return np.array(results, np.float64 if result is ctypes.c_double else np.float32)

    return reduced


@cache
def has_bits_of_eager(name: str) -> bool:
    """Return True if instructions are bitwise identical to a float32 ufunc, or to an eager kernel's reduction."""
    processor = target()
    if processor is None or not processor.fuses:
        return False
    if name == OWN_TANH:
        return True
    if name in OWN:
        reduction(name, 16)  # Loops call it by its name, once it is loaded.
        return True
    if name in REDUCTIONS:
        return _reduces_alike(name, dot_width())
    if name not in FUNCTIONS and name not in RANGED:
        return False
    samples = _numbers()
    if name in RANGED:
        samples = samples[~(np.abs(samples) > np.float32(RANGED[name][1]))]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(samples)
    return same_bits(computed(name, samples), expected)


@cache
def dot_width() -> int:
    """Return the vector lanes in which BLAS adds, or 0 if it adds in another order."""
    return next((width for width in (16, 8) if _reduces_alike("row_dot", width)), 0)


def _reduces_alike(name: str, width: int) -> bool:
    if not width and name in BLAS:
        return False
    rng, reduced = np.random.default_rng(1), reduction(name, width or 16)
    for n in LENGTHS:
        a, b = rng.standard_normal((2, ROWS, n), np.float32)
        operands = (a, b)[: rows_of(name)]
        if not np.array_equal(rounded(name, reduced(*operands)), rounded(name, EAGER[name](*operands))):
            return False
    return True


def rounded(name: str, result: Array) -> Array:
    """Return the results of a row reduction as eager kernels use them, at most float32."""
    return result.astype(np.float32) if name in ("wide_spread", "finite_sum") else result


def streamed_sums(a: Array) -> Array:
    """Return the sums of rows as `over_streamed` computes them."""
    whole = a.shape[1] // RUN * RUN
    if a.shape[1] <= RUN:
        return line_sums(a)  # type: ignore[no-any-return]
    parts = [line_sums(a[:, :whole].reshape(len(a), -1, RUN))]
    if whole < a.shape[1]:
        parts.append(line_sums(a[:, whole:])[:, None])
    return line_sums(np.concatenate(parts, 1))  # type: ignore[no-any-return]


def _deviations(a: Array) -> Array:
    """Return the sums of squared deviations of rows."""
    spec = TensorSpec.contiguous(a.shape, {4: float32, 8: float64}[a.itemsize], Device("cpu"))
    return moments_function(spec, (1,), a.dtype)(a)[0][:, 0]  # type: ignore[no-any-return]


def _spread(a: Array) -> Array:
    """Return the same in float32, or in float64 if that overflows, as the eager variance does."""
    spread = _deviations(a)
    return np.where(np.isfinite(spread), spread, _deviations(a.astype(np.float64)))


def _finite_sum(a: Array) -> Array:
    """Return the sums of rows, in float64 if they overflow."""
    sums: Array = line_sums(a)
    return np.where(np.isfinite(sums), sums, a.sum(1, np.float64))


def _half_sum(a: Array) -> Array:
    """Return the sums of rows as `over_half_words` computes them; for an odd length, without the last element."""
    evens, odds = np.stack([a[:, :-1:2], a[:, 1::2]])
    return line_sums(evens) + line_sums(odds)  # type: ignore[no-any-return]


def _lane_sum(a: Array) -> Array:
    """Return the sums of rows in the order of `lane_sums`."""
    total = np.zeros(len(a))
    for start in range(0, a.shape[1], PIECE):
        piece = a[:, start : start + PIECE]
        whole = piece.shape[1] // (NUM_LANES * VECTORS) * NUM_LANES * VECTORS
        steps = piece[:, :whole].reshape(len(a), -1, VECTORS, NUM_LANES)
        lanes = np.zeros((len(a), VECTORS, NUM_LANES), a.dtype)
        for i in range(steps.shape[1]):
            lanes += steps[:, i]
        both = (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])
        rest, width = np.zeros(len(a), a.dtype), NUM_LANES
        while width > 1:
            width //= 2
            both = both[:, :width] + both[:, width:]
        for i in range(whole, piece.shape[1]):
            rest += piece[:, i]
        total += both[:, 0] + rest
    return total


EAGER: dict[str, Callable[..., Array]] = {
    "line_sum": line_sums,
    "streamed_sum": streamed_sums,
    "half_sum": _half_sum,
    "row_sum": lambda a: row_dots(a, ones(a.shape[1], a.dtype)),
    "row_dot": row_dots,
    "lane_sum": _lane_sum,
    "lane_dot": lambda a, b: _lane_sum(a * b),
    "maximum": lambda a: np.max(a, 1),
    "minimum": lambda a: np.min(a, 1),
    "finite_sum": _finite_sum,
    "spread": _spread,
    "wide_spread": lambda a: _deviations(a.astype(np.float64)),
}
"""How eager kernels reduce rows."""


def same_bits(a: Array, b: Array) -> bool:
    """Return True if float32 arrays are bitwise identical, except that all NaNs are equal."""
    both = np.isnan(a) & np.isnan(b)
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | both))


def _numbers() -> Array:
    rng = np.random.default_rng(0)
    some = rng.integers(0, 1 << 32, RANDOM, np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.standard_normal(RANDOM, np.float32) * np.exp2(rng.integers(-8, 8, RANDOM)).astype(np.float32)
    edges = np.array([*EDGES, np.inf, np.nan], np.float32)
    words = edges.view(np.int32)
    near = np.concatenate([words - 1, words, words + 1]).view(np.float32)
    return np.concatenate([some, usual, near, -near])
