"""Compiled loops of pooling agree with NumPy's passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.pooling import compiled
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
FORMATS = {4: tt.channels_last, 5: tt.channels_last_3d}
PLANES, VOLUMES = (3, 20, 25, 27), (2, 7, 9, 11, 13)

MAXIMA: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), PLANES),
    "disjoint": (lambda x: F.max_pool2d(x, 2, return_indices=True), PLANES),
    "ceiling": (lambda x: F.max_pool2d(x, (3, 2), (2, 3), 1, 1, True, return_indices=True), PLANES),
    "dilated": (lambda x: F.max_pool2d(x, 3, 1, 1, 2, return_indices=True), PLANES),
    "large": (lambda x: F.max_pool2d(x, 9, 4, 3, return_indices=True), PLANES),
    "lines": (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (8, 64, 129)),
    "volumes": (lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 0, 1), return_indices=True), VOLUMES),
    "adaptive": (lambda x: F.adaptive_max_pool2d(x, (7, 5), return_indices=True), PLANES),
    "adaptive, one": (lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True), PLANES),
    "adaptive, more": (lambda x: F.adaptive_max_pool2d(x, (31, 40), return_indices=True), PLANES),
    "unbatched": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (40, 25, 27)),
}
AVERAGES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "overlapping": (lambda x: F.avg_pool2d(x, 3, 2, 1), PLANES),
    "disjoint": (lambda x: F.avg_pool2d(x, 2), PLANES),
    "ceiling": (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), 1, True, False), PLANES),
    "divisor": (lambda x: F.avg_pool2d(x, (5, 3), (3, 1), 0, False, True, 7), PLANES),
    "apart": (lambda x: F.avg_pool2d(x, 2, 5), PLANES),
    "whole": (lambda x: F.avg_pool2d(x, (25, 27)), PLANES),
    "lines": (lambda x: F.avg_pool1d(x, 3, 2, 1), (8, 64, 129)),
    "volumes": (lambda x: F.avg_pool3d(x, (2, 3, 2), 2, 1), VOLUMES),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (7, 5)), PLANES),
    "adaptive, more": (lambda x: F.adaptive_avg_pool2d(x, (31, 40)), PLANES),
    "adaptive volumes": (lambda x: F.adaptive_avg_pool3d(x, (4, 5, 3)), VOLUMES),
}


def computed(function: Callable[..., Any], x: tt.Tensor) -> list[tt.Tensor]:
    """Return the results of a function and the gradient of its argument."""
    x = x.detach().requires_grad_()
    made = function(x)
    results = list(made) if isinstance(made, tuple) else [made]
    rng = np.random.default_rng(3)
    grad = tt.tensor(rng.standard_normal(tuple(results[0].shape)), dtype=x.dtype)
    if results[0].ndim in FORMATS and not x.is_contiguous():
        grad = grad.to(memory_format=FORMATS[results[0].ndim])
    results[0].backward(grad)
    return [*[each.detach() for each in results], x.grad]


def beside_numpy(
    function: Callable[..., Any], x: tt.Tensor, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[tt.Tensor, tt.Tensor]]:
    """Return results of loops, and those of NumPy beside them."""
    Dispatcher.singleton().forget_all()
    calls: list[str] = []
    monkeypatch.setattr(compiled, "shared_loop", recorded(calls))
    found = computed(function, x)
    assert calls
    count = len(calls)
    Dispatcher.singleton().forget_all()
    monkeypatch.setattr(compiled, "is_large", lambda spec: False)
    expected = computed(function, x)
    Dispatcher.singleton().forget_all()
    assert len(calls) == count
    return list(zip(found, expected, strict=True))


def recorded(calls: list[str]) -> Callable[..., Any]:
    """Return `shared_loop`, which records the calls of its loops."""
    share = compiled.shared_loop

    def recording(*args: Any) -> Callable[..., None]:
        run = share(*args)

        def called(*arrays: Any) -> None:
            calls.append("loop")
            run(*arrays)

        return called

    return recording


def operand(sizes: tuple[int, ...], dtype: tt.dtype, special: str) -> tt.Tensor:
    rng = np.random.default_rng(sizes)
    numbers = rng.standard_normal(sizes)
    if special != "plain":
        numbers = np.round(numbers)
        some = rng.random(sizes) < 0.15
        number = {"equal": 0.0, "nan": np.nan, "infinite": -np.inf, "zeros": -0.0}[special]
        numbers = np.where(some, number, numbers if special != "zeros" else 0.0)
    return tt.tensor(numbers, dtype=dtype)


def in_layout(x: tt.Tensor, last: bool) -> tt.Tensor:
    return x.to(memory_format=FORMATS[x.ndim]) if last else x


def in_every_layout(rows: dict[str, tuple[Any, tuple[int, ...]]]) -> list[Any]:
    """Return names with and without channels-last, which tensors of four or five dimensions have."""
    layouts = [(name, last) for name, (_, sizes) in rows.items() for last in {False, len(sizes) in FORMATS}]
    return [
        pytest.param(*each, id=f"{each[0]}-{('contiguous', 'channels_last')[each[1]]}")
        for each in sorted(layouts)
    ]


@pytest.mark.parametrize("special", ["plain", "equal", "nan", "infinite", "zeros"])
@pytest.mark.parametrize(("name", "last"), in_every_layout(MAXIMA))
def test_maxima(name: str, special: str, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sizes = MAXIMA[name]
    x = in_layout(operand(sizes, tt.float32, special), last)
    (values, indices, grads) = beside_numpy(function, x, monkeypatch)
    for a, b in (values, indices):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    np.testing.assert_array_equal(np.signbit(values[0].numpy()), np.signbit(values[1].numpy()))
    tt.testing.assert_close(*grads)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize(("name", "last"), in_every_layout(AVERAGES))
def test_averages(name: str, dtype: tt.dtype, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sizes = AVERAGES[name]
    x = in_layout(operand(sizes, dtype, "plain"), last)
    for a, b in beside_numpy(function, x, monkeypatch):
        tt.testing.assert_close(a, b)


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_results_are_those_of_one_thread(last: bool) -> None:
    x = in_layout(operand((2, 33, 45, 47), tt.float32, "plain"), last)
    functions = [f for f, sizes in (*MAXIMA.values(), *AVERAGES.values()) if sizes == PLANES]
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            found.append([each for f in functions[:-1] for each in computed(f, x)])
    finally:
        tt.set_num_threads(before)
    assert all(tt.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("wrong", [25 * 27, -2])
def test_an_index_out_of_range_is_an_error(wrong: int) -> None:
    x = operand(PLANES, tt.float32, "plain")
    values, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    indices[1, 2, 3, 4] = wrong
    with pytest.raises(RuntimeError, match=f"but got {wrong}"):
        tt.ops.aten.max_pool2d_with_indices_backward(values, x, [3], [2], [1], [1], False, indices)


def test_index_minus_one_is_skipped() -> None:
    x = operand(PLANES, tt.float32, "plain")
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    place = divmod(int(indices[1, 2, 3, 4]), 27)
    indices[1, 2, 3, 4] = -1
    found = tt.ops.aten.max_pool2d_with_indices_backward(values, x, [2], [2], [0], [1], False, indices)
    assert found[1, 2, place[0], place[1]] == 0 and found.count_nonzero() == values.count_nonzero() - 1


def test_an_output_may_have_another_layout() -> None:
    x = operand(PLANES, tt.float32, "plain")
    want = F.avg_pool2d(x, 3, 2, 1)
    out = tt.empty(want.shape).to(memory_format=tt.channels_last)
    tt.ops.aten.avg_pool2d.out(x, [3], [2], [1], out=out)
    assert not out.is_contiguous()
    tt.testing.assert_close(out, want, check_stride=False)
