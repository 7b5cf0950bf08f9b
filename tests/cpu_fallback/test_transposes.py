"""Copies between layouts by compiled transposes have the bits of NumPy's copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback import transposes
from triten.cpu_fallback.transposes_loop import transposes_loop
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "matrix": ((300, 301), (1, 0)),
    "wide": ((33, 4099), (1, 0)),
    "channels-last": ((5, 65, 33, 34), (0, 2, 3, 1)),
    "channels-first": ((5, 33, 34, 65), (0, 3, 1, 2)),
    "batches": ((3, 2, 130, 129), (1, 0, 3, 2)),
    "many batches": ((1, 70, 40, 41), (1, 0, 3, 2)),
    "far dimensions": ((40, 3, 7, 130), (3, 2, 1, 0)),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compile the loop of each plan at once, and return the dtypes that were asked for."""
    names: list[str] = []

    def loop(dtype: str) -> Any:
        names.append(dtype)
        return SimpleNamespace(beside=lambda work: transposes_loop(dtype))

    monkeypatch.setattr(transposes, "_loop", loop)
    return names


@needs_llvm
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "complex64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposes_have_the_bits_of_numpy(layout: str, dtype: str, asked: list[str]) -> None:
    sizes, order = LAYOUTS[layout]
    itemsize = np.dtype(dtype).itemsize
    array = np.random.default_rng(2).integers(0, 256, (*sizes, itemsize), np.uint8).view(dtype)[..., 0]
    before = tt.get_num_threads()
    for x in (tt.from_numpy(array), tt.from_numpy(np.pad(array, 1))[(slice(1, -1),) * array.ndim]):
        want = np.ascontiguousarray(array.transpose(order))
        for threads in (1, 3):
            tt.set_num_threads(threads)
            try:
                got = x.permute(order).contiguous().numpy()
            finally:
                tt.set_num_threads(before)
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    assert asked == ["float32" if itemsize == 4 else "float64"] * 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: tt.ones(20, 20).t(),  # few elements
        lambda: tt.ones(300, 300, dtype=tt.int16).t(),
        lambda: tt.ones(300, 1).expand(300, 300).t(),
        lambda: tt.ones(30_000, 3).t(),
        lambda: tt.ones(300, 300).flip(0).t(),
    ],
)
def test_other_copies_are_numpys(make: Any, asked: list[str]) -> None:
    x = make()
    np.testing.assert_array_equal(x.contiguous().numpy(), np.ascontiguousarray(x.numpy()))
    assert len(asked) <= 1 and (not asked or x.is_contiguous() is False)


@needs_llvm
def test_the_loop_is_compiled_after_enough_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred = transposes._loop("float32")
    monkeypatch.setattr(deferred, "loop", None)
    monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    x = tt.randn(303, 299)
    first = x.t().contiguous()
    background.wait()
    assert deferred.loop is not None
    assert tt.equal(x.t().contiguous(), first)
