"""Choosing by a mask: as `np.where`, for every dtype and stride."""

import numpy as np
import pytest

from triten.cpu_fallback.selection import SMALL, selected


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int8", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("n", [SMALL - 1, SMALL, SMALL + 1])
def test_what_is_selected(dtype: str, n: int) -> None:
    rng = np.random.default_rng(4)
    condition = rng.random(n) > 0.5
    a, b = ((rng.standard_normal(n) * 50).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(selected(condition, a, b), np.where(condition, a, b))
    np.testing.assert_array_equal(
        selected(condition[::-1], a[::-1], b[0]), np.where(condition[::-1], a[::-1], b[0])
    )
    columns = selected(condition[:, None], a[:, None], b[None, :2])
    np.testing.assert_array_equal(columns, np.where(condition[:, None], a[:, None], b[None, :2]))
