"""`segment_reduce`: against a plain loop in float64, on the CPU and through interpreted programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import triten as tt

DEVICES = ("cpu", "cuda")


PLAIN = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}
NOTHING = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}
CASES = [
    ((7,), [2, 0, 5], 0),
    ((0,), [0, 0], 0),
    ((40,), [13, 0, 27], 0),
    ((11, 5), [4, 7], 0),
    ((2, 5, 3), [[2, 1, 2], [0, 5, 0]], 1),
    ((2, 3, 4), [[[4, 0], [1, 3], [2, 2]], [[0, 4], [4, 0], [3, 1]]], 2),
]


def expected(a: np.ndarray, lengths: Any, axis: int, reduce: str, initial: float | None) -> np.ndarray:
    """Reduce one segment after another."""
    counts = np.asarray(lengths)
    out = np.empty((*a.shape[:axis], counts.shape[-1], *a.shape[axis + 1 :]))
    for row in np.ndindex(*a.shape[:axis]):
        start = 0
        for place, count in enumerate(counts[row]):
            part = a[row][start : start + count]
            start += count
            if not count:
                out[row][place] = NOTHING[reduce] if initial is None else initial
                continue
            with np.errstate(all="ignore"):
                found = PLAIN[reduce](part, axis=0)
                if initial is not None:
                    if reduce == "mean":
                        found = (part.sum(0) + initial) / count
                    else:
                        found = PLAIN[reduce](np.stack([found, np.full_like(found, initial)]), axis=0)
            out[row][place] = found
    return out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduce", sorted(PLAIN))
def test_values(rng: np.random.Generator, device: str, reduce: str) -> None:
    for shape, lengths, axis in CASES:
        for initial in (None, 2.5):
            a = rng.standard_normal(shape)
            if a.size > 10:
                a.ravel()[3] = math.nan
            data, counts = tt.from_numpy(a).to(device), tt.tensor(lengths, device=device)
            want = expected(a, lengths, axis, reduce, initial)
            got = tt.segment_reduce(data, reduce, lengths=counts, axis=axis, initial=initial)
            np.testing.assert_allclose(got.cpu().numpy(), want, 1e-12, err_msg=f"{shape} {initial}")
            if initial is not None:
                continue
            offsets = tt.nn.functional.pad(counts.cumsum(-1), (1, 0)).to(tt.int32)
            again = tt.segment_reduce(data, reduce, offsets=offsets, axis=-a.ndim + axis, initial=initial)
            np.testing.assert_array_equal(again.cpu().numpy(), got.cpu().numpy())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_floats_are_rounded_once(rng: np.random.Generator, device: str, dtype: str) -> None:
    data = tt.from_numpy(rng.random((130, 3))).to(getattr(tt, dtype)).to(device)
    got = tt.segment_reduce(data, "sum", lengths=tt.tensor([1, 129], device=device))
    wide = data.cpu().to(tt.float64).numpy()
    want = tt.from_numpy(np.stack([wide[0], wide[1:].sum(0)])).to(data.dtype)
    assert tt.equal(got.cpu(), want)


@pytest.mark.parametrize("device", DEVICES)
def test_any_layout_gives_the_same(rng: np.random.Generator, device: str) -> None:
    a = rng.standard_normal((6, 8))
    lengths = tt.tensor([[3, 3], [6, 0]] * 2, device=device)
    want = expected(a.T[::2].copy(), [[3, 3], [6, 0]] * 2, 1, "max", None)
    data = tt.from_numpy(a).to(device).t()[::2]
    assert not data.is_contiguous()
    np.testing.assert_array_equal(
        tt.segment_reduce(data, "amax", lengths=lengths, axis=1).cpu().numpy(), want
    )
    out = tt.empty(2, 4, dtype=tt.float64, device=device).t()
    tt.segment_reduce(data, "max", lengths=lengths, axis=1, out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), want)


GRADIENTS = {
    "sum": [2.0, 2.0, 2.0, -3.0, -3.0, -3.0],
    "mean": [2 / 3, 2 / 3, 2 / 3, -1.0, -1.0, -1.0],
    "max": [1.0, 0.0, 1.0, 0.0, -3.0, 0.0],
    "min": [0.0, 2.0, 0.0, -1.5, 0.0, -1.5],
    "prod": [6.0, 18.0, 6.0, -0.0, -0.0, -0.0],
}
"""Of segments [3, 1, 3] and [0, 2, 0] with gradients 2 and -3: extremes that are attained twice share theirs."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduce", sorted(GRADIENTS))
def test_gradients(device: str, reduce: str) -> None:
    x = tt.tensor([3.0, 1, 3, 0, 2, 0, 9], device=device).requires_grad_()
    offsets = tt.tensor([0, 3, 3, 6], device=device)
    y = tt.segment_reduce(x, reduce, offsets=offsets)
    y.backward(tt.tensor([2.0, 5.0, -3.0], device=device))
    np.testing.assert_allclose(x.grad.cpu().numpy(), [*GRADIENTS[reduce], 0.0], 1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_products_leave_zeros_and_nan_out(device: str) -> None:
    x = tt.tensor([0.0, 2, 4, math.nan, 3, 5], device=device).requires_grad_()
    lengths = tt.tensor([3, 3], device=device)
    tt.segment_reduce(x, "prod", lengths=lengths, initial=10.0).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), [80.0, 0, 0, 150.0, math.nan, math.nan])


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, RuntimeError, "Either lengths or offsets must be defined"),
        ({"indices": [6]}, RuntimeError, "indices based reduction is not supported yet"),
        ({"lengths": [2, 3]}, RuntimeError, "Expected all rows of lengths along axis to sum to"),
        ({"lengths": [2, -1, 5]}, RuntimeError, "lengths contains negative value!"),
        ({"lengths": tt.zeros(0, dtype=tt.int64)}, RuntimeError, "at least one element"),
        ({"lengths": [2.0, 4.0]}, NotImplementedError, "not implemented for 'Float'"),
        ({"lengths": [[6]]}, RuntimeError, "data.dim\\(\\) >= lengths_value.dim\\(\\)"),
        ({"lengths": [6], "axis": 1}, IndexError, "Dimension out of range"),
        ({"offsets": [0, 3, 2, 6]}, RuntimeError, "do not descend, within \\[0, 6\\]"),
        ({"offsets": [0, 7]}, RuntimeError, "do not descend, within \\[0, 6\\]"),
        ({"lengths": [6], "reduce": "any"}, RuntimeError, "reduce argument must be either sum, prod, mean"),
    ],
)
def test_refusals(device: str, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    data = tt.arange(6.0, device=device)
    tensors = {
        k: tt.as_tensor(v, device=device) if isinstance(v, list | tt.Tensor) else v
        for k, v in arguments.items()
    }
    reduce = tensors.pop("reduce", "sum")
    with pytest.raises(error, match=message):
        tt.segment_reduce(data, reduce, **tensors)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        tt.segment_reduce(data.long(), "sum", lengths=tt.tensor([6], device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_segments_of_nothing(device: str) -> None:
    none = tt.zeros(0, dtype=tt.int64, device=device)
    assert tt.segment_reduce(tt.ones(2, 3, device=device), "sum", lengths=none, unsafe=True).shape == (0, 3)
    lengths = tt.tensor([2, 0], device=device)
    assert tt.segment_reduce(tt.ones(2, 0, device=device), "max", lengths=lengths).shape == (2, 0)
