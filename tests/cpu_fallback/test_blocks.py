"""Large pointwise calls in blocks: every layout, the same for any threads; casts of float16; bitwise
selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

import triten as tt
from triten.cpu_fallback.blocks import BLOCK, SHARED_FROM, Blocks, block_indices
from triten.cpu_fallback.widen import widened_halves
from triten.runtime.tensor_spec import TensorSpec

LARGE = (1031, 521)  # above SHARED_FROM, and no multiple of a tile
assert math.prod(LARGE) > SHARED_FROM


SIZES = ((1,), (BLOCK + 1,), (9, 257, 129), (1, 50000, 7), (600, 2, 300))


@pytest.mark.parametrize(
    ("sizes", "turned"), [(sizes, axis) for sizes in SIZES for axis in (None, *range(len(sizes) - 1))]
)
def test_blocks_cover_each_element_once(sizes: tuple[int, ...], turned: int | None) -> None:
    seen = np.zeros(sizes, np.int64)
    for index in block_indices(sizes, turned):
        assert 0 < seen[index].size <= BLOCK
        seen[index] += 1
    assert (seen == 1).all()


def plain(rng: np.random.Generator) -> tt.Tensor:
    made = tt.from_numpy(rng.standard_normal(LARGE).astype(np.float32))
    made[3, 5], made[-1, -1] = math.nan, -math.inf
    return made


def normal(rng: np.random.Generator, *sizes: int) -> tt.Tensor:
    return tt.from_numpy(rng.standard_normal(sizes).astype(np.float32))


ROWS, COLUMNS = LARGE
LAYOUTS: dict[str, Callable[[np.random.Generator], tt.Tensor]] = {
    "plain": plain,
    "turned": lambda rng: normal(rng, COLUMNS, ROWS).t(),
    "steps": lambda rng: normal(rng, ROWS, 2 * COLUMNS)[:, ::2],
    "row": lambda rng: normal(rng, COLUMNS),
    "column": lambda rng: normal(rng, ROWS, 1),
    "expanded": lambda rng: normal(rng, ROWS, 1).expand(LARGE),
    "one": lambda rng: tt.tensor(1.25),
    "whole": lambda rng: tt.from_numpy(rng.integers(-9, 9, LARGE).astype(np.int32)),
    "double": lambda rng: tt.from_numpy(rng.standard_normal(LARGE)),
    "half": lambda rng: tt.from_numpy(rng.standard_normal(LARGE)).to(tt.float16),
}


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", ["plain", "turned", "row", "column", "half"])
@pytest.mark.usefixtures("threads")
def test_layouts(rng: np.random.Generator, first: str, second: str) -> None:
    a, b = LAYOUTS[first](rng), LAYOUTS[second](rng)
    wide = np.result_type(a.numpy().dtype, b.numpy().dtype)
    if wide == np.float64 and b.dtype is not tt.float64:
        wide = np.float32  # as PyTorch promotes whole numbers and 0-d tensors
    x, y = (t.numpy().astype(np.float32 if t.dtype is tt.float16 else wide) for t in (a, b))
    for function, reference in ((tt.add, np.add), (tt.maximum, np.maximum)):
        got = function(a, b)
        want = reference(x, y)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want.astype(got.numpy().dtype))
        out = tt.empty(got.shape, dtype=got.dtype)
        function(a, b, out=out)
        np.testing.assert_array_equal(out.numpy(), got.numpy())
        if got.ndim == 2:
            turned = tt.empty(got.shape[::-1], dtype=got.dtype).t()
            function(a, b, out=turned)
            np.testing.assert_array_equal(turned.numpy(), got.numpy())


@pytest.mark.usefixtures("threads")
def test_in_place_and_choices(rng: np.random.Generator) -> None:
    a, b = LAYOUTS["plain"](rng), LAYOUTS["turned"](rng)
    x, y = a.numpy().copy(), b.numpy().copy()
    np.testing.assert_array_equal(tt.where(a > 0, a, b).numpy(), np.where(x > 0, x, y))
    np.testing.assert_array_equal(tt.where(a > 0, b, 0.5).numpy(), np.where(x > 0, y, np.float32(0.5)))
    np.testing.assert_array_equal(tt.relu(a).numpy(), np.maximum(x, 0))
    np.testing.assert_array_equal(tt.relu(b).numpy(), np.maximum(y, 0))
    np.testing.assert_array_equal(
        tt.relu(a.to(tt.bfloat16)).float().numpy(), np.maximum(a.bfloat16().float().numpy(), 0)
    )
    a.mul_(b).sub_(b, alpha=2)
    np.testing.assert_allclose(a.numpy(), x * y - 2 * y, rtol=1e-6, atol=1e-6)


def test_axes_of_size_one_and_memory_orders() -> None:
    x = np.random.default_rng(3).standard_normal((2, 1, 96, 1, 200)).astype(np.float32)
    a = tt.from_numpy(x).permute(4, 1, 0, 3, 2)
    np.testing.assert_array_equal(
        (a + tt.ones(1, 1, 2, 1, 96).double()).numpy(), a.numpy().astype(np.float64) + 1.0
    )
    spec = TensorSpec.contiguous((2, 3), tt.float32, tt.device("cpu"))
    assert Blocks(spec, [spec, None]).flat


def test_every_half_is_widened_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide, want = widened_halves(halves), halves.astype(np.float32)
    np.testing.assert_array_equal(wide.view(np.uint32), want.view(np.uint32))
    np.testing.assert_array_equal(widened_halves(halves[::-3]), want[::-3])


@pytest.mark.parametrize("function", ["erf", "log1p"])
def test_float32_functions_of_large_arrays(function: str) -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [bits, rng.standard_normal(1 << 16).astype(np.float32), np.float32([0.0, -0.0, -1, 4, np.inf])]
    )
    got = getattr(tt, function)(tt.from_numpy(x)).numpy()
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, function)(x.astype(np.float64))
        rounded = want.astype(np.float32)
        known = np.isfinite(rounded)
        np.testing.assert_array_equal(got[~known], rounded[~known])
        error = np.abs(got[known] - want[known]) / np.spacing(np.abs(rounded[known]))
    assert error.max() <= (0.6 if function == "erf" else 4)  # NumPy's vector logarithm has 3.4
    assert (np.signbit(got) == np.signbit(rounded))[known].all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_relu_of_every_narrow_number(dtype: str) -> None:
    bits = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    x = tt.from_numpy(np.concatenate([bits, bits[:77]])).view(getattr(tt, dtype))
    got, want = tt.relu(x).float().numpy(), np.maximum(x.float().numpy(), 0)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(tt.relu(x[::3]).float().numpy(), want[::3])
    np.testing.assert_array_equal(tt.relu_(x.clone()).float().numpy(), want)
