"""Compiled attention is the exact one, for all masks, strides and sizes, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.attention import compiled
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

attend = tt.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Make loops for small calls, shared among threads."""
    before = tt.get_num_threads()
    for name in ("MIN_WORK", "SHARED_WORK", "WAKING_WORK"):
        monkeypatch.setattr(compiled, name, 1)
    Dispatcher.singleton().forget_all()
    yield monkeypatch
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, int], int, Any]] = {
    "plain": ((2, 3, 40, 32), (3, 40), 32, None),
    "causal": ((2, 3, 67, 16), (3, 67), 16, "causal"),
    "causal, fewer keys": ((1, 2, 60, 16), (2, 33), 16, "causal"),
    "causal, more keys": ((1, 2, 33, 16), (2, 60), 16, "causal"),
    "causal, groups": ((2, 6, 50, 32), (2, 50), 16, "causal"),
    "groups, a mask": ((2, 4, 25, 32), (2, 31), 48, bool),
    "a mask of numbers": ((2, 4, 25, 32), (4, 31), 16, float),
    "two queries": ((3, 2, 2, 64), (2, 70), 64, None),
    "one key": ((3, 2, 7, 16), (2, 1), 16, None),
    "heads of no whole vectors": ((2, 2, 30, 24), (2, 30), 5, bool),
    "several pieces of a row": ((1, 1, 3, 16), (1, 2500), 16, None),
    "several blocks": ((1, 2, 250, 16), (2, 130), 32, None),
    "terms of more than one sum": ((1, 1, 9, 16), (1, 300), 288, None),
}
"""Sizes of queries; heads and places of keys; elements of a value; the mask's kind."""


def operands(case: str, dtype: type = np.float32) -> tuple[list[Any], Any, Any]:
    """Return query, key and value, a mask, and the output's gradient."""
    query, (heads, keys), width, kind = CASES[case]
    rng = np.random.default_rng(0)
    sizes = (query, (query[0], heads, keys, query[3]), (query[0], heads, keys, width), (*query[:3], width))
    *given, grad = (rng.standard_normal(each).astype(dtype) for each in sizes)
    mask = None
    if kind is bool:
        mask = rng.random((query[0], 1, query[2], keys)) > 0.3
        mask[0, 0, 2] = False  # a row that sees nothing
    elif kind is float:
        mask = rng.standard_normal((query[1], query[2], keys)).astype(dtype)
    return given, mask, grad


def results(given: list[Any], mask: Any, grad: Any, is_causal: bool) -> list[tt.Tensor]:
    """Return the output and the gradients of query, key and value."""
    leaves = [each.detach().requires_grad_() for each in given]
    out = attend(*leaves, mask, is_causal=is_causal, enable_gqa=leaves[0].shape[1] != leaves[1].shape[1])
    return [out.detach(), *tt.autograd.grad(out, leaves, grad)]


def of_arrays(given: Any, mask: Any, grad: Any, is_causal: bool) -> list[Any]:
    tensors = [tt.from_numpy(each) for each in given]
    given_mask = None if mask is None else tt.from_numpy(mask)
    return [each.numpy() for each in results(tensors, given_mask, tt.from_numpy(grad), is_causal)]


def exact(given: Any, mask: Any, grad: Any, is_causal: bool) -> list[Any]:
    """Compute the output and gradients in float64 from the definition of attention."""
    q, k, v, g = (each.astype(np.float64) for each in (*given, grad))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, group, 1) for each in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = scale * q @ k.swapaxes(-1, -2)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    out = weights @ v
    changes = g @ v.swapaxes(-1, -2)
    changes = weights * (changes - (g * out).sum(-1, keepdims=True))
    of_k, of_v = scale * changes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g
    of_k, of_v = (each.reshape(each.shape[0], -1, group, *each.shape[2:]).sum(2) for each in (of_k, of_v))
    return [out, scale * changes @ k, of_k, of_v]


def are_near(found: list[Any], wanted: list[Any], tolerance: float) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1.0)


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_exact_ones(case: str) -> None:
    given, mask, grad = operands(case)
    is_causal = CASES[case][3] == "causal"
    runs = []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        runs.append(of_arrays(given, mask, grad, is_causal))
        for a, b in zip(runs[0], runs[-1], strict=True):
            assert a.tobytes() == b.tobytes()
    are_near(runs[0], exact(given, mask, grad, is_causal), 3e-6)


@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16], ids=str)
def test_narrow_floats_are_computed_in_float32(dtype: tt.dtype) -> None:
    given, mask, grad = operands("groups, a mask")
    narrow = [tt.from_numpy(each).to(dtype) for each in (*given, grad)]
    found = results(narrow[:3], tt.from_numpy(mask), narrow[3], False)
    wide = [each.float().numpy() for each in narrow]
    assert {each.dtype for each in found} == {dtype}
    wanted = exact(wide[:3], mask, wide[3], False)
    are_near([each.float().numpy() for each in found], wanted, float(tt.finfo(dtype).eps))


def test_parts_of_one_tensor_and_gradients_of_any_strides() -> None:
    rng = np.random.default_rng(0)
    both = rng.standard_normal((2, 40, 3, 4, 16), np.float32)
    q, k, v = tt.from_numpy(both).permute(2, 0, 3, 1, 4).unbind(0)
    grad = tt.from_numpy(rng.standard_normal((2, 40, 4, 16), np.float32)).transpose(1, 2)
    found = results([q, k, v], None, grad, True)
    assert found[0].transpose(1, 2).is_contiguous(), "the output lies as the query does"
    for g in (grad, tt.ones(()).expand(2, 4, 40, 16)):
        arrays = [each.numpy() for each in results([q, k, v], None, g, True)]
        wanted = exact([each.numpy() for each in (q, k, v)], None, g.numpy(), True)
        are_near(arrays, wanted, 3e-6)


def test_what_lies_backwards_in_memory() -> None:
    given, mask, grad = operands("plain")
    turned = [np.ascontiguousarray(each[..., ::-1])[..., ::-1] for each in given]
    assert turned[0].strides[-1] < 0
    swapped = [tt.from_numpy(np.ascontiguousarray(each.swapaxes(-1, -2))).transpose(-1, -2) for each in given]
    found = [each.numpy() for each in results(swapped, mask, tt.from_numpy(grad), False)]
    are_near(found, exact(given, mask, grad, False), 3e-6)


def test_masks_of_every_stride() -> None:
    given, _, grad = operands("a mask of numbers")
    rng = np.random.default_rng(1)
    for sizes in ((25, 31), (1, 1, 1, 31), (2, 1, 25, 1), (4, 1, 1)):
        mask = rng.standard_normal(sizes, np.float32)
        are_near(of_arrays(given, mask, grad, False), exact(given, mask, grad, False), 3e-6)
        mask = mask > 0
        are_near(of_arrays(given, mask, grad, False), exact(given, mask, grad, False), 3e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_stays_in_its_row(value: float, small: pytest.MonkeyPatch) -> None:
    given, _, grad = operands("plain")
    given[0][1, 2, 5, 3] = value
    found = of_arrays(given, None, grad, False)
    small.setattr(compiled, "MIN_WORK", 1 << 62)
    Dispatcher.singleton().forget_all()
    wanted = of_arrays(given, None, grad, False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
    rest = np.ones(found[0].shape[:3], bool)
    rest[1, 2, 5] = False
    np.testing.assert_allclose(found[0][rest], wanted[0][rest], rtol=0, atol=3e-6)


def test_large_scores_do_not_overflow() -> None:
    given, _, grad = operands("plain")
    given[0] *= 1e4
    are_near(of_arrays(given, None, grad, False)[:1], exact(given, None, grad, False)[:1], 1e-4)


def test_who_computes_is_told() -> None:
    given, _, _ = operands("plain")
    assert "compiled loops over blocks of queries" in str(tt.explain(attend, *map(tt.from_numpy, given)))
    wide = [tt.from_numpy(each.astype(np.float64)) for each in given]
    one = [tt.from_numpy(given[0][:, :, :1]), *map(tt.from_numpy, given[1:])]
    for others in (wide, one):
        assert "compiled" not in str(tt.explain(attend, *others))
