"""Compiled loops of softmax over short rows, and along other dimensions, agree with float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import compiled_softmax
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
SHAPES = [
    ((512, 65), 1),
    ((300, 33), 1),
    ((200, 128), -1),
    ((4, 21, 64, 64), 1),
    ((3, 50, 300), 1),
    ((5, 7, 9, 33), 0),
    ((129, 131), 0),
    ((3, 1, 5000), 1),
]


@pytest.fixture(autouse=True)
def requested(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return the loops that kernels request, with new plans."""
    names: list[tuple[str, bool]] = []
    find = compiled_softmax._loop

    def recording(name: str, is_row: bool) -> object:
        names.append((name, is_row))
        return find(name, is_row)

    monkeypatch.setattr(compiled_softmax, "_loop", recording)
    Dispatcher.singleton().forget_all()
    return names


def numbers(sizes: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("sizes", "dim"), SHAPES)
def test_values_and_gradients(
    name: str, sizes: tuple[int, ...], dim: int, requested: list[tuple[str, bool]]
) -> None:
    x, grad, results = 5 * numbers(sizes), numbers(sizes, 1), []
    for dtype in (tt.float32, tt.float64):
        own = tt.tensor(x, dtype=dtype).requires_grad_()
        made = getattr(F, name)(own, dim)
        made.backward(tt.tensor(grad, dtype=dtype))
        results.append((made.detach(), own.grad))
    is_row = dim % len(sizes) == len(sizes) - 1
    assert requested == [(name, is_row), (f"{name}_backward", is_row)]
    for found, expected in zip(*results, strict=True):
        tt.testing.assert_close(found, expected.float(), rtol=1e-5, atol=4e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("sizes", "dim"), SHAPES[:1] + SHAPES[3:4])
def test_special_values(name: str, sizes: tuple[int, ...], dim: int) -> None:
    """Lines with NaN, with positive infinity, and of minus infinity alone are NaN; -inf has no probability."""
    x = np.moveaxis(numbers(sizes), dim, -1).copy()
    lines = x.reshape(-1, sizes[dim])
    lines[0, 3], lines[1, 5], lines[2], lines[3, 2] = math.nan, math.inf, -math.inf, -math.inf
    lines[4, 0], lines[5, 4] = -math.nan, -200.0
    lines[6] = np.where(np.arange(sizes[dim]) % 2, np.float32(0), np.float32(-0.0))
    made = getattr(F, name)(tt.tensor(np.moveaxis(x, -1, dim).copy()), dim).numpy()
    found = np.moveaxis(made, dim, -1).reshape(-1, sizes[dim])
    assert np.isnan(found[[0, 1, 2, 4]]).all() and not np.isnan(found[[3, *range(5, len(found))]]).any()
    assert found[3, 2] == (0 if name == "softmax" else -math.inf)
    even = 1 / sizes[dim] if name == "softmax" else -math.log(sizes[dim])
    np.testing.assert_allclose(found[6], even, 1e-6)


def test_gradient_of_probabilities_above_one() -> None:
    """Accept any tensor as the result, as PyTorch does."""
    output, grad = tt.tensor(numbers((512, 65))) * 40, tt.tensor(numbers((512, 65), 1))
    found = tt.ops.aten._log_softmax_backward_data(grad, output, 1, tt.float32)
    wide = grad.double() - output.double().exp() * grad.double().sum(1, keepdim=True)
    large = output > 88
    tt.testing.assert_close(found[~large], wide[~large].float(), rtol=1e-3, atol=1e-4)
    assert (output > 88.8).any() and not found[output > 88.8].isfinite().any()


@pytest.mark.parametrize(("sizes", "dim"), SHAPES)
def test_results_are_those_of_one_thread_and_of_compiled_functions(sizes: tuple[int, ...], dim: int) -> None:
    x, grad = tt.tensor(numbers(sizes)), tt.tensor(numbers(sizes, 1))

    def both(x: tt.Tensor, grad: tt.Tensor) -> list[tt.Tensor]:
        made = F.log_softmax(x, dim)
        return [made, tt.ops.aten._log_softmax_backward_data(grad, made, dim, tt.float32)]

    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            found.append(both(x, grad))
    finally:
        tt.set_num_threads(before)
    found.append(tt.compile(both)(x, grad))
    for other in found[1:]:
        assert all(tt.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_the_output_may_be_the_input() -> None:
    x = tt.tensor(numbers((512, 65)))
    want = F.softmax(x, 1)
    tt.ops.aten._softmax.out(x, 1, False, out=x)
    assert tt.equal(x, want)
