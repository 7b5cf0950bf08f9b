"""Arrays on both backends, and the count of launches that a computation made."""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.runtime.cuda.driver import driver


class Launches:
    """Counter of kernel launches since its creation."""

    def __init__(self) -> None:
        self.before = driver().launches

    @property
    def count(self) -> int:
        return driver().launches - self.before


@pytest.fixture
def launches() -> Launches:
    return Launches()


@pytest.fixture(autouse=True)
def settled() -> Iterator[None]:
    """Synchronize after each test, so that its asynchronous work fails in that test."""
    yield
    tt.cuda.synchronize()


@pytest.fixture
def random(rng: np.random.Generator) -> Callable[..., tt.Tensor]:
    """Return random(sizes, dtype), which makes host tensors with values that every dtype holds, zeros and
    negatives too.
    """

    def make(sizes: tuple[int, ...], dtype: tt.dtype = tt.float32) -> tt.Tensor:
        if dtype.is_floating_point:
            values = np.asarray(rng.standard_normal(sizes)).astype(np.float32)
        elif dtype is tt.bool:
            values = np.asarray(rng.integers(0, 2, sizes))
        else:
            values = np.asarray(rng.integers(-20 if dtype.is_signed else 0, 20, sizes))
        return tt.from_numpy(values.astype(dtype.np))

    return make


@pytest.fixture
def same() -> Callable[..., None]:
    """Return same(device tensor, host tensor): bitwise identical except NaN, or within `tolerance`."""

    def check(got: tt.Tensor, expected: tt.Tensor, tolerance: float = 0.0) -> None:
        assert got.is_cuda
        assert got.dtype is expected.dtype
        assert got.shape == expected.shape
        left, right = (t.detach().cpu().contiguous().numpy() for t in (got, expected))
        if left.dtype.kind not in "biufc":
            left, right = left.astype(np.float32), right.astype(np.float32)
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)

    return check
