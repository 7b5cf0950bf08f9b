"""Rows that start anywhere in a vector of 16 bytes: softmax and norms, whole and in blocks."""

import math

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.normalization import row_norm, softmax, vectors

F = tt.nn.functional
ROUNDING = {tt.float32: 2.0**-24, tt.bfloat16: 2.0**-8, tt.float16: 2.0**-11, tt.float64: 2.0**-53}
# One below and above four vectors, primes, whole vectors, and halves of one.
CASES = [(tt.bfloat16, 31), (tt.bfloat16, 37), (tt.bfloat16, 36), (tt.float32, 17), (tt.float32, 12)]


@pytest.fixture(params=["whole rows", "rows in blocks"])
def blocks(request, monkeypatch):
    if request.param == "rows in blocks":
        monkeypatch.setattr(softmax, "INTERPRETED_TILE", 16)
        monkeypatch.setattr(row_norm, "INTERPRETED_ROW", 16)
    return request.param == "rows in blocks"


FUNCTIONS = {
    "softmax": lambda x, w, b: tt.softmax(x, -1),
    "log_softmax": lambda x, w, b: tt.log_softmax(x, -1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 0.1),
    "rms_norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 0.1),
}


def check(function, view, dtype, *operands, change):
    """Compare results and gradients on the device with float64 on the host."""
    wide = [t.to(tt.float64).clone().requires_grad_() for t in operands]
    own = [t.detach().to("cuda").requires_grad_() for t in operands]
    expected, got = (function(view(leaves[0]), *leaves[1:]) for leaves in (wide, own))
    change = tt.from_numpy(change[tuple(slice(s) for s in expected.shape)].copy()).to(dtype)
    expected.backward(change.to(tt.float64))
    got.backward(change.to("cuda"))
    for a, b in [(got, expected), *((p.grad, q.grad) for p, q in zip(own, wide, strict=True))]:
        if b is None:
            assert a is None
            continue
        scale = max(1.0, float(b.detach().abs().max().item()))
        values = a.detach().cpu().to(tt.float64).numpy()
        np.testing.assert_allclose(values, b.detach().numpy(), rtol=0, atol=64 * ROUNDING[dtype] * scale)


VIEWS = {
    "whole": lambda x, n: x[:, :n],
    "within": lambda x, n: x[1:, 3 : 3 + n],
    "every other row": lambda x, n: x[::2, 1 : 1 + n],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "n"), CASES, ids=lambda v: getattr(v, "name", v))
def test_values_and_gradients(rng, blocks, name, dtype, n):
    if blocks and n not in (17, 37):
        pytest.skip("the blocks of one dtype are as good as those of another")
    # Ten rows, so that some programs of rows that begin alike have one row more than others. Plans are kept by shape.
    rows, width = 10 + blocks, n + 5
    numbers = [tt.from_numpy(rng.standard_normal(s) * 2 + 0.5).to(dtype) for s in ((rows, width), (n,), (n,))]
    change = rng.standard_normal((rows, width))
    x, w, b = numbers
    check(FUNCTIONS[name], lambda x: x, dtype, x[:, :n].contiguous(), w, b, change=change)
    if n == 17:
        for view in VIEWS.values():
            check(FUNCTIONS[name], lambda x, v=view: v(x, n), dtype, x, w, b, change=change)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("at", [0, 3, 8, 64, 66])
def test_what_is_not_finite_at_both_ends(blocks, name, at, same):
    a = np.linspace(-1, 2, (5 + blocks) * 67, dtype=np.float32).reshape(-1, 67)
    for row, value in zip(range(1, 4), (math.nan, math.inf, -math.inf), strict=True):
        a[row, at] = value
    a[4, :] = -math.inf
    x = tt.from_numpy(a)
    same(FUNCTIONS[name](x.to("cuda"), None, None), FUNCTIONS[name](x, None, None), 3e-6)


def test_nothing_beside_a_row_is_written(rng, same):
    a = tt.from_numpy(rng.standard_normal((6, 70)).astype(np.float32))
    for first in range(4):
        wide = tt.full((6, 70), 7.0, device="cuda")
        out = wide[:, first : first + 66]
        tt._softmax(a.to("cuda")[:, first : first + 66], 1, False, out=out)
        same(out, tt.softmax(a[:, first : first + 66], 1), 3e-6)
        assert (wide[:, :first] == 7).all() and (wide[:, first + 66 :] == 7).all()


def test_rows_that_do_not_begin_alike_are_not_cut(rng, same):
    a = tt.from_numpy(rng.standard_normal((5, 67)).astype(np.float32))
    out = tt.empty(5, 69, device="cuda")[:, :67]
    tt._log_softmax(a.to("cuda"), 1, False, out=out)
    same(out, tt.log_softmax(a, 1), 3e-6)
    assert vectors.cut_rows(67, [4, 4], [[67], [69]]) == vectors.AS_THEY_ARE
    assert vectors.cut_rows(67, [4, 4], [[67], [71]]) == vectors.Cut(4, True)


def test_cuts_on_a_device(monkeypatch):
    monkeypatch.setattr(vectors, "interpreted", lambda: False)
    assert vectors.cut_rows(50257, [2, 4], [[50257], [50257]]) == vectors.Cut(8, True)
    assert vectors.cut_rows(1023, [2], [[1023]]) == vectors.AS_THEY_ARE
    assert vectors.cut_rows(50257, [8], [[50257]]) == vectors.AS_THEY_ARE
    assert vectors.cut_rows(1000, [2], [[1000]]) == vectors.Cut(8, False)
    assert vectors.cut_rows(1001, [2], [[1008]]) == vectors.AS_THEY_ARE
    assert vectors.cut_rows(1032, [2], [[1048]]).body(1032) == 1032
    assert vectors.Cut(8, True).body(4103) == 4096
