"""Names that PyTorch has for what other names do: in-place aliases, old norms, questions about tensors."""

import math

import numpy as np
import pytest

import triten as tt

UNARY = {
    **{f"arc{f}": f"a{f}" for f in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "absolute": "abs", "fix": "trunc", "negative": "neg",
}  # fmt: skip
BINARY = {
    "arctan2": "atan2", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne",
    "multiply": "mul", "divide": "div", "subtract": "sub", "true_divide": "div",
}  # fmt: skip


@pytest.mark.parametrize("alias", [*UNARY, *BINARY])
def test_aliases_in_place_and_into_outputs(device, alias):
    operator = (UNARY | BINARY)[alias]
    x = tt.tensor([[0.25, -0.5], [0.75, 1.0]], device=device)
    others = [] if alias in UNARY else [tt.tensor([0.25, 0.5], device=device)]
    expected = getattr(tt, operator)(x, *others)
    out = tt.empty(0, dtype=expected.dtype, device=device)
    assert getattr(tt, alias)(x, *others, out=out) is out
    for found in (out, getattr(x, alias)(*others)):
        np.testing.assert_array_equal(found.cpu().numpy(), expected.cpu().numpy())
    written = x.clone()
    assert getattr(written, f"{alias}_")(*others) is written and written.dtype is x.dtype
    np.testing.assert_array_equal(written.cpu().numpy(), expected.to(x.dtype).cpu().numpy())


@pytest.mark.parametrize("alias", ["arccos", "arctanh", "negative", "absolute", "multiply", "divide"])
def test_an_alias_in_place_is_differentiated_as_its_operator(alias):
    x = tt.tensor([0.25, -0.5], dtype=tt.float64, requires_grad=True)
    others = [x] if alias in BINARY else []
    (expected,) = tt.autograd.grad(getattr(x * 1, (UNARY | BINARY)[alias])(*others).sum(), x)
    (found,) = tt.autograd.grad(getattr(x * 1, f"{alias}_")(*others).sum(), x)
    assert tt.equal(found, expected)


def test_range_includes_its_end(device):
    with pytest.warns(UserWarning, match="deprecated"):
        assert tt.range(0, 1, 0.25, device=device).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert tt.range(3, 1, -1, dtype=tt.int64).tolist() == [3, 2, 1] and tt.range(0, 1).dtype is tt.float32
        assert tt.range(0, 1, 0.3).numel() == 4 and tt.range(2, 2).tolist() == [2.0]
    out = tt.empty(2, 2, device=device)
    assert tt.range(1, 4, out=out) is out and out.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for bounds, message in (
        ((0, 1, 0), "nonzero"),
        ((0, -1), "inconsistent"),
        ((0, math.inf), "unsupported range"),
    ):
        with pytest.warns(UserWarning), pytest.raises(RuntimeError, match=message):
            tt.range(*bounds)


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5), (8, 3), (4, 3), (3, 3, 3), (0, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(device, sizes, wrap):
    expected = np.zeros(sizes, np.float32)
    if expected.size:
        np.fill_diagonal(expected, 2.0, wrap=wrap)
    x = tt.zeros(sizes, device=device)
    assert x.fill_diagonal_(2.0, wrap) is x
    np.testing.assert_array_equal(x.cpu().numpy(), expected)


def test_fill_diagonal_of_a_view_and_its_gradient():
    x = tt.ones(4, 3, requires_grad=True)
    y = x * 1
    y.t()[:, 1:].fill_diagonal_(5)
    (y * y).sum().backward()
    assert x.grad.tolist() == [[2, 2, 2], [0, 2, 2], [2, 0, 2], [2, 2, 0]]
    with pytest.raises(RuntimeError, match="larger than 1"):
        tt.ones(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="equal length"):
        tt.ones(2, 3, 2).fill_diagonal_(1)


def test_norms_of_old():
    x = tt.randn(3, 4, 5, dtype=tt.float64)
    a = x.numpy()
    for found, expected in (
        (x.norm(), np.linalg.norm(a)),
        (x.norm(1, dim=1), abs(a).sum(1)),
        (x.norm("nuc", dim=(1, 2)), np.linalg.norm(a, "nuc", (1, 2))),
        (tt.frobenius_norm(x, (0, 2), keepdim=True), np.sqrt((a * a).sum((0, 2), keepdims=True))),
        (tt.nuclear_norm(x), np.linalg.norm(a, "nuc", (1, 2))),
        (tt.nuclear_norm(x, (2, 0)), np.linalg.norm(a, "nuc", (2, 0))),
        (tt.norm_except_dim(x), np.sqrt((a * a).sum((1, 2), keepdims=True))),
        (tt.norm_except_dim(x, 2, 1), np.sqrt((a * a).sum((0, 2), keepdims=True))),
        (tt.norm_except_dim(x, 1, 2), abs(a).sum((0, 1), keepdims=True)),
        (tt.norm_except_dim(x, 2, -1), np.linalg.norm(a)),
    ):
        assert tuple(found.shape) == np.shape(expected)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    with pytest.raises(RuntimeError, match="at most 2 dimensions"):
        tt.frobenius_norm(x, (0, 1, 2))
    with pytest.raises(RuntimeError, match="dtype should be real for real inputs"):
        x.norm(dtype=tt.complex128)


def test_questions():
    x = tt.ones(2, 3)
    z = tt.ones(2, dtype=tt.complex64).conj()
    assert not z.is_conj() and not tt.is_conj(z) and not tt.is_neg(z.imag) and z.resolve_conj() is z
    assert x.is_same_size(x + 1) and not tt.is_same_size(x, x.t())
    assert tt.is_signed(x) and not tt.is_signed(tt.ones(1, dtype=tt.uint8)) and tt.get_device(x) == -1
    assert x.t().dim_order() == (1, 0) and not tt.is_inference(x)
    with tt.inference_mode():
        assert tt.is_inference(tt.ones(1))
    assert tt.detach_(x.requires_grad_() * 2).grad_fn is None
    assert x[:, tt.newaxis].shape == (2, 1, 3) and tt.inf == math.inf and tt.isnan(tt.tensor(tt.nan))
    assert (tt.pi, tt.e) == (math.pi, math.e)
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        x.is_nonzero()
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        x[:0].is_nonzero()


def test_powers_of_truth_values(device):
    x = tt.tensor([True, False], device=device)
    assert (x**True).tolist() == [True, False] and tt.pow(x, False).tolist() == [True, True]
    assert (x**True).dtype is tt.bool and x.clone().pow_(False).tolist() == [True, True]
    assert tt.pow(x, True, out=tt.empty(2, dtype=tt.int32, device=device)).tolist() == [1, 0]
    for call in (lambda: tt.pow(True, x), lambda: tt.pow(x, x)):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            call()
