"""Compiled lines of batch_norm and group_norm are what NumPy's passes are, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import compiled_lines
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

F = tt.nn.functional


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Compile kernels for small tensors, shared among threads."""
    before = tt.get_num_threads()
    for name in ("COMPILE_THRESHOLD", "SHARED_FROM", "WAKING_FROM"):
        monkeypatch.setattr(compiled_lines, name, 1)
    Dispatcher.singleton().forget_all()
    yield monkeypatch
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


def drawn(rng: np.random.Generator, dtype: type, *sizes: int) -> tt.Tensor:
    """Return numbers around a mean that no element has."""
    return tt.from_numpy((rng.standard_normal(sizes) * 2 + 5).astype(dtype))


def by_batch(x: tt.Tensor, g: tt.Tensor, weight: Any, bias: Any) -> list[tt.Tensor]:
    """Return the result of batch_norm, the running statistics, and gradients."""
    running = [tt.zeros(x.shape[1], dtype=x.dtype), tt.ones(x.shape[1], dtype=x.dtype)]
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias) if each is not None]
    given = leaves[1:] if weight is not None else [None, None]
    out = F.batch_norm(leaves[0], *running, *given, training=True)
    return [out.detach(), *running, *tt.autograd.grad(out, leaves, g)]


def by_group(x: tt.Tensor, g: tt.Tensor, weight: Any, bias: Any) -> list[tt.Tensor]:
    """Return the result of group_norm, and gradients."""
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias) if each is not None]
    given = leaves[1:] if weight is not None else [None, None]
    out = F.group_norm(leaves[0], 3, *given)
    return [out.detach(), *tt.autograd.grad(out, leaves, g)]


@pytest.mark.parametrize("norm", [by_batch, by_group])
@pytest.mark.parametrize(
    "sizes", [(140, 6, 130), (2, 9, 50, 47), (130, 6, 5, 5, 5), (3, 30, 2500), (150, 120)]
)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_like_passes(
    rng: np.random.Generator,
    small: pytest.MonkeyPatch,
    norm: Any,
    sizes: tuple[int, ...],
    affine: bool,
    dtype: type,
) -> None:
    x, g = drawn(rng, dtype, *sizes), drawn(rng, dtype, *sizes) - 5
    parameters = [drawn(rng, dtype, sizes[1]) if affine else None for _ in range(2)]
    found = []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        found.append(norm(x, g, *parameters))
    for other in found[1:]:
        assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(found[0], other, strict=True))
    small.setattr(compiled_lines, "COMPILE_THRESHOLD", 1 << 62)
    Dispatcher.singleton().forget_all()
    expected = norm(x.double(), g.double(), *(p if p is None else p.double() for p in parameters))
    near = 3e-6 if dtype is np.float32 else 1e-14
    for one, another in zip(found[0], expected, strict=True):
        exact = another.numpy()
        np.testing.assert_allclose(one.numpy(), exact, rtol=0, atol=near * max(1, np.abs(exact).max()))


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("norm", [by_batch, by_group])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
def test_what_is_not_finite_or_overflows(
    rng: np.random.Generator, small: pytest.MonkeyPatch, norm: Any, value: float
) -> None:
    x, g = drawn(rng, np.float32, 140, 6, 130), drawn(rng, np.float32, 140, 6, 130)
    x[3, 4, 5], x[3, 2] = value, 1.0
    found = norm(x, g, None, None)
    small.setattr(compiled_lines, "COMPILE_THRESHOLD", 1 << 62)
    Dispatcher.singleton().forget_all()
    for one, another in zip(found, norm(x, g, None, None), strict=True):
        np.testing.assert_allclose(one.numpy(), another.numpy(), rtol=1e-4, atol=1e-5)


def test_who_computes_is_told(rng: np.random.Generator) -> None:
    x = drawn(rng, np.float32, 140, 6, 130)
    assert "compiled lines" in str(tt.explain(F.group_norm, x, 3))
