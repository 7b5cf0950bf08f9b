"""Compiled layer_norm and rms_norm are exact to rounding, with the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback import function_check
from triten.cpu_fallback.normalization import compiled_rows
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

F = tt.nn.functional
SIZES = [(300, 33), (3, 5000), (70, 2, 65), (1, 50), (129, 64)]
"""Among them rows of more than a piece, and rows that are no whole number of vectors."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make loops for small tensors, in many parts that threads share."""
    before = tt.get_num_threads()
    for name in ("COMPILE_THRESHOLD", "SHARED_FROM", "WAKING_FROM", "PART"):
        monkeypatch.setattr(compiled_rows, name, 1)
    Dispatcher.singleton().forget_all()
    yield
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


def normal_numbers(dtype: type, *sizes: int, seed: int = 0) -> Any:
    """Return random numbers whose mean is not 0."""
    return (np.random.default_rng(seed).standard_normal(sizes) * 2 + 3).astype(dtype)


def exact(x: Any, parameters: list[Any], centred: bool, eps: float) -> list[Any]:
    """Return the output, the means if any, and the reciprocal standard deviations in float64."""
    x, *parameters = (each.astype(np.float64) for each in (x, *parameters))
    mean = x.mean(-1, keepdims=True)
    gap = x - mean if centred else x
    rstd = 1 / np.sqrt((gap**2).mean(-1, keepdims=True) + eps)
    out = gap * rstd
    for parameter, operation in zip(parameters, (np.multiply, np.add), strict=False):
        out = operation(out, parameter)
    return [out, *([mean] if centred else []), rstd]


def results(x: Any, parameters: list[Any], centred: bool, eps: float) -> list[Any]:
    """Return the results of the operator."""
    x, *parameters = (tt.from_numpy(each) for each in (x, *parameters))
    padded = [*parameters, None, None][: 1 + centred]
    norm = tt.ops.aten.native_layer_norm if centred else tt.ops.aten._fused_rms_norm
    return [each.numpy() for each in norm(x, x.shape[-1:], *padded, eps)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_results_are_exact_to_rounding(sizes: Any, centred: bool, affine: bool, dtype: type) -> None:
    x = normal_numbers(dtype, *sizes)
    parameters = [normal_numbers(dtype, sizes[-1], seed=1 + i) for i in range((1 + centred) * affine)]
    expected = exact(x, parameters, centred, 0.25)
    runs = []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        runs.append(results(x, parameters, centred, 0.25))
        for a, b in zip(runs[0], runs[-1], strict=True):
            assert np.array_equal(a, b), "no order of additions depends on threads"
    for actual, exact_result in zip(runs[0], expected, strict=True):
        bound = 64 * np.finfo(dtype).eps * np.abs(exact_result).max()
        assert np.abs(actual - exact_result).max() <= bound


def test_sums_are_those_of_lanes() -> None:
    """Compare the statistics with sums in the order of lanes, which row kernels of the compiler also have."""
    x = normal_numbers(np.float32, 7, 2100)
    _, mean, _ = results(x, [], True, 0.25)
    n, lane_sum, lane_dot = x.shape[1], *(function_check.EAGER[name] for name in ("lane_sum", "lane_dot"))
    assert np.array_equal(mean[:, 0], (lane_sum(x) / n).astype(np.float32))
    for centred, deviations in ((True, x - mean), (False, x)):
        rstd = results(x, [], centred, 0.25)[-1]
        squares = lane_dot(deviations, deviations)
        assert np.array_equal(rstd[:, 0], (1 / np.sqrt(squares / n + 0.25)).astype(np.float32))


def test_loop_is_chosen_and_named() -> None:
    x = tt.from_numpy(normal_numbers(np.float32, 40, 64))
    assert "a compiled loop over rows" in str(tt.explain(F.layer_norm, x, (64,)))


def test_input_may_have_any_strides() -> None:
    x = normal_numbers(np.float32, 48, 40).T
    for a, b in zip(results(x, [], True, 1e-5), results(x.copy(), [], True, 1e-5), strict=True):
        assert np.array_equal(a, b)


def test_nan_and_infinity_stay_in_their_row() -> None:
    x = normal_numbers(np.float32, 40, 64)
    x[3, 5], x[7, 2] = np.nan, np.inf
    out = results(x, [], True, 1e-5)[0]
    assert np.isnan(out[3]).all() and np.isnan(out[7]).all()
    assert np.isfinite(np.delete(out, (3, 7), 0)).all()
