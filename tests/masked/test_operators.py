"""A masked reduction of a row is the reduction of the elements that its mask keeps; numbers are PyTorch's."""

import math

import numpy as np
import pytest

import triten as tt

M = tt.masked
inf, nan = math.inf, math.nan


def data(device="cpu"):
    return tt.from_numpy(np.sin(np.arange(12, dtype=np.float32) * 0.7 + 0.3).reshape(3, 4) * 2).to(device)


def kept(device="cpu"):
    rows = [[True, False, True, True], [False, False, False, False], [True, True, False, False]]
    return tt.tensor(rows, device=device)


def close(found, expected):
    np.testing.assert_allclose(
        found.detach().cpu().double().numpy(), np.asarray(expected, float), rtol=1e-5, atol=1e-5
    )


OF_KEPT = {
    "sum": (np.sum, 0.0),
    "prod": (np.prod, 1.0),
    "amax": (np.max, -inf),
    "amin": (np.min, inf),
    "mean": (np.mean, nan),
    "median": (lambda kept: np.sort(kept)[(len(kept) - 1) // 2], nan),
    "logsumexp": (lambda kept: np.log(np.exp(kept).sum()), -inf),
    "var": (lambda kept: np.var(kept, ddof=1), nan),
    "std": (lambda kept: np.std(kept, ddof=1), nan),
    "norm": (np.linalg.norm, 0.0),
}
"""What each reduction is of the elements that are kept, and of none."""


@pytest.mark.parametrize("name", OF_KEPT)
def test_a_reduction_is_that_of_the_elements_kept(name, device):
    of_kept, of_none = OF_KEPT[name]
    x, mask = data(device), kept(device)
    rows = [row[keep] for row, keep in zip(x.cpu().numpy(), mask.cpu().numpy(), strict=True)]
    expected = [of_kept(row) if len(row) else of_none for row in rows]
    close(getattr(M, name)(x, dim=1, mask=mask), expected)
    close(getattr(M, name)(x, dim=-1, keepdim=True, mask=mask), [[each] for each in expected])
    close(getattr(M, name)(M.masked_tensor(x, mask), dim=1), expected)
    if name != "median":
        whole = of_kept(x.cpu().numpy()[mask.cpu().numpy()])
        close(getattr(M, name)(x, mask=mask), whole)
        close(getattr(M, name)(x, dim=(0, 1), mask=mask), whole)
        close(getattr(M, name)(x), of_kept(x.cpu().numpy().reshape(-1)))


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "mean", "logsumexp", "var", "norm"])
def test_gradients_reach_what_is_kept(name, device):
    x, mask = data(device).requires_grad_(), kept(device)
    weights = tt.tensor([1.0, 0.0, 3.0], device=device)
    result = getattr(M, name)(x, dim=1, mask=mask)
    tt.where(weights > 0, result * weights, weights).sum().backward()
    reference = data().requires_grad_()
    plain = {"norm": lambda row: tt.linalg.vector_norm(row), "logsumexp": lambda row: row.logsumexp(0)}
    for i, weight in ((0, 1.0), (2, 3.0)):
        row = reference[i][kept()[i]]
        (plain.get(name, lambda row: getattr(row, name)())(row) * weight).backward()
    close(x.grad[::2], reference.grad[::2].numpy())
    assert x.grad[0, 1].item() == 0


def test_positions_are_of_the_inputs_dtype_as_pytorchs(device):
    x, mask = data(device), kept(device)
    close(M.argmax(x, 1, mask=mask), [2, 0, 1])
    close(M.argmin(x, 1, mask=mask), [0, 0, 0])
    assert M.argmax(x, 1, mask=mask).dtype is tt.float32
    assert M.argmin(x, dtype=tt.int64, mask=mask).item() == int(
        np.argmin(np.where(kept().numpy(), data().numpy(), inf))
    )


def test_normalizations(device):
    x = tt.tensor([[-3.0, -2.0, -1.0], [0.0, 1.0, 2.0]], device=device)
    mask = tt.tensor([[True, False, True], [False, False, False]], device=device)
    close(M.softmax(x, 1, mask=mask), [[0.11920292, 0, 0.88079708], [nan] * 3])
    close(M.log_softmax(x, 1, mask=mask), [[-2.126928, -inf, -0.126928], [nan] * 3])
    close(M.softmin(x, 1, mask=mask), [[0.88079708, 0, 0.11920292], [nan] * 3])
    close(M.cumsum(x, 1, mask=mask), [[-3, -3, -4], [0, 0, 0]])
    close(M.cumprod(x, 1, mask=mask), [[-3, -3, 3], [1, 1, 1]])
    close(M.normalize(x, 2.0, 1, mask=mask), [[-0.9486833, 0, -0.31622776], [0, 0, 0]])
    close(M.normalize(x, 1.0, 1, mask=mask), [[-0.75, 0, -0.25], [0, 0, 0]])
    assert M.softmax(x, 0, dtype=tt.float64, mask=mask).dtype is tt.float64


def test_orders_of_norms(device):
    x, mask = tt.tensor([[-3.0, 2.0, 4.0]], device=device), tt.tensor([[True, False, True]], device=device)
    found = [M.norm(x, order, 1, mask=mask).item() for order in (2.0, 1.0, 0.0, inf, -inf)]
    assert found == pytest.approx([5, 7, 2, 4, 3])
    nothing = tt.zeros(1, 3, dtype=tt.bool, device=device)
    assert [M.norm(x, order, 1, mask=nothing).item() for order in (2.0, inf, -inf)] == [0, 0, inf]


def test_corrections_of_variances(device):
    x, mask = data(device), kept(device)
    row = data().numpy()[0][[0, 2, 3]]
    assert M.var(x, 1, unbiased=False, mask=mask)[0].item() == pytest.approx(np.var(row), rel=1e-5)
    assert M.std(x, 1, correction=0, mask=mask)[0].item() == pytest.approx(np.std(row), rel=1e-5)
    assert M.var(x, 1, correction=5, mask=mask)[0].item() == inf
    assert M.var(tt.tensor([1, 2, 6], device=device)).dtype is tt.float32
    with pytest.raises(AssertionError, match="Only one of unbiased and correction"):
        M.var(x, 1, True, correction=2)


def test_logaddexp_of_what_is_kept(device):
    a, b = tt.tensor([-100.0, -200.0, -300.0], device=device), tt.tensor([-1.0, -2.0, -3.0], device=device)
    mask = tt.tensor([True, False, True], device=device)
    close(M.logaddexp(a, b, input_mask=mask, other_mask=mask), [-1, -inf, -3])
    close(M.logaddexp(a, b, other_mask=mask), [-1, -200, -3])


def test_masks_broadcast_and_dtypes_of_results(device):
    x = tt.arange(6, device=device, dtype=tt.int32).view(2, 3)
    mask = tt.tensor([1, 0, 1], device=device)
    assert M.sum(x, 1, mask=mask).tolist() == [2, 8] and M.sum(x, 1, mask=mask).dtype is tt.int64
    assert M.prod(x, 1, mask=mask).tolist() == [0, 15]
    assert M.amax(x, 1, mask=mask[:1] == 0).tolist() == [-(2**31)] * 2
    assert M.amin(x, 1, mask=mask[:1] == 0).tolist() == [2**31 - 1] * 2
    assert M.sum(x > 2, 1, mask=mask).tolist() == [0, 2]
    assert M.median(x, 1, mask=mask).tolist() == [0, 3]
    assert M.mean(x, 1, dtype=tt.float64, mask=mask).tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, m: M.sum(x, 2, mask=m), IndexError, "Dimension out of range"),
        (lambda x, m: M.sum(x, (0, 0), mask=m), RuntimeError, "dim=0 appears multiple times"),
        (lambda x, m: M.sum(x, mask=m[None]), IndexError, "mask dimensionality higher than of the input"),
        (
            lambda x, m: M.mean(x.to(tt.int64), mask=m),
            ValueError,
            "Could not infer output dtype. Input dtype.*int64",
        ),
        (lambda x, m: M.mean(x, dtype=tt.int64, mask=m), ValueError, "Optional dtype"),
        (lambda x, m: M.amax(x > 0, mask=m), NotImplementedError, "identity of amax on .*bool input"),
        (lambda x, m: M.median(x.to(tt.int64), mask=m), ValueError, "no fully masked out rows"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(data(), kept())
