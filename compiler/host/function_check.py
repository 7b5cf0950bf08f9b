"""Whether a function's instructions have the bits of NumPy's ufunc here.

NumPy has loops for several processors, and its bits are not the same on all of them, nor in all of its versions. So each
function is compared at its first use, on some thousand numbers of all sizes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .element_program import ElementProgram
from .elementary_functions import FUNCTIONS
from .llvm_source import write_loop
from .object_code import loop_function, target
from .stages import Loop

RANDOM = 4096
"""Numbers of random bits, and as many of usual sizes."""
EDGES = (0.0, 1.0, 2.0**-126, 2.0**-149, 88.0, 88.72284, 89.0, 87.33655, 103.97208, 104.0, 3.4028235e38)


def function_loop(name: str) -> Loop:
    """A function as a loop from one array of float32 to another."""
    program = ElementProgram(True, True)
    x = program.value("input", "float32", detail=0)
    return Loop((x,), ((FUNCTIONS[name](program, x), "o0"),))


def compiled(name: str) -> np.ufunc | object:
    """A function of a geometry and two arrays."""
    return loop_function(write_loop(function_loop(name), ["unit", "unit"], 1))


@cache
def has_bits_of_numpy(name: str) -> bool:
    """Whether instructions have a ufunc's bits for numbers of float32."""
    found = target()
    if found is None or not found.fuses or name not in FUNCTIONS:
        return False
    given = _numbers()
    made = computed(name, given)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(given)
    return same_bits(made, wanted)


def computed(name: str, given: np.ndarray) -> np.ndarray:
    """A function's values by instructions, of a contiguous array of float32."""
    out = np.empty_like(given)
    compiled(name)(np.array([given.size, 0, 4, 0, 4], np.int64), out, given)
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays of float32 have the same bits; one NaN is as good as another."""
    both = np.isnan(a) & np.isnan(b)
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | both))


def _numbers() -> np.ndarray:
    rng = np.random.default_rng(0)
    some = rng.integers(0, 1 << 32, RANDOM, np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.standard_normal(RANDOM, np.float32) * np.exp2(rng.integers(-8, 8, RANDOM)).astype(np.float32)
    edges = np.array([*EDGES, np.inf, np.nan], np.float32)
    words = edges.view(np.int32)
    near = np.concatenate([words - 1, words, words + 1]).view(np.float32)
    return np.concatenate([some, usual, near, -near])
