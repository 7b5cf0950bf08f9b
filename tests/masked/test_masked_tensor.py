"""Masked tensors: operators keep the mask, reductions leave elements out, gradients are masked."""

import copy
import math
import pickle

import pytest

import triten as tt

M = tt.masked


def masked(device="cpu", requires_grad=False):
    data = tt.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], device=device)
    mask = tt.tensor([[True, False, True], [False, False, False]], device=device)
    return M.masked_tensor(data, mask, requires_grad=requires_grad)


def shown(x):
    """Return the elements, with None for masked elements."""
    kept, elements = x.get_mask().reshape(-1).tolist(), x.get_data().reshape(-1).tolist()
    return [e if k else None for e, k in zip(elements, kept, strict=True)]


def test_text():
    assert repr(masked()) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n    [      --,       --,       --]\n  ]\n)"
    )
    assert repr(masked().sum()) == "MaskedTensor(  4.0000, True)"
    assert repr(masked()[1].sum()) == "MaskedTensor(--, False)"
    assert repr(masked().to(tt.int32)[0]) == "MaskedTensor(\n  [1,       --, 3]\n)"


def test_what_it_is_made_of(device):
    data, mask = tt.ones(2, device=device), tt.tensor([True, False], device=device)
    x = M.masked_tensor(data, mask, requires_grad=True)
    data.zero_()
    assert M.is_masked_tensor(x) and isinstance(x, tt.Tensor) and not M.is_masked_tensor(data)
    assert (
        x.is_leaf
        and x.requires_grad
        and x.shape == (2,)
        and x.device.type == device
        and x.layout is tt.strided
    )
    assert x.get_data().tolist() == [1, 1] and x.get_mask().tolist() == [True, False]
    assert x.to_tensor(7).tolist() == [1, 7] and type(x.to_tensor(7)) is tt.Tensor
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.cpu()):
        assert shown(other) == [1, None]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x + 1, [2, None, 4, None, None, None]),
        (lambda x: 2 * x, [2, None, 6, None, None, None]),
        (lambda x: 1 - x, [0, None, -2, None, None, None]),
        (lambda x: x * x, [1, None, 9, None, None, None]),
        (lambda x: x**2, [1, None, 9, None, None, None]),
        (lambda x: -x, [-1, None, -3, None, None, None]),
        (lambda x: x.clamp(max=2), [1, None, 2, None, None, None]),
        (lambda x: tt.maximum(x, x * 2), [2, None, 6, None, None, None]),
        (lambda x: x > 2, [False, None, True, None, None, None]),
        (lambda x: x + tt.ones(3, device=x.device), [2, None, 4, None, None, None]),
        (lambda x: x[0], [1, None, 3]),
        (lambda x: x[:, 2:], [3, None]),
        (lambda x: x.t(), [1, None, None, None, 3, None]),
        (lambda x: x.reshape(-1)[2], [3]),
        (lambda x: x.unsqueeze(0).squeeze(0), [1, None, 3, None, None, None]),
        (lambda x: tt.cat([x[0], x[0]]), [1, None, 3, 1, None, 3]),
        (lambda x: tt.stack([x[0], x[1]], 1), [1, None, None, None, 3, None]),
        (lambda x: x.split(1)[0], [1, None, 3]),
        (lambda x: tt.ones_like(x), [1, None, 1, None, None, None]),
        (lambda x: x.clone().contiguous(), [1, None, 3, None, None, None]),
        (lambda x: tt.where(x.get_data() > 1, x, tt.zeros(2, 3, device=x.device)), [0, 0, 3, None, None, 0]),
        (lambda x: x.sum(), [4]),
        (lambda x: x.sum(1), [4, None]),
        (lambda x: tt.sum(x, 0, True), [1, None, 3]),
        (lambda x: x.mean(1), [2, None]),
        (lambda x: x.prod(), [3]),
        (lambda x: x.amax(1), [3, None]),
        (lambda x: x.amin(0), [1, None, 3]),
        (lambda x: x.argmax(1), [2, None]),
        (lambda x: x.var(1), [2, None]),
        (lambda x: x.std(1, unbiased=False), [1, None]),
        (lambda x: x.norm(), [math.sqrt(10)]),
        (lambda x: (x > 0).all(1), [True, None]),
        (lambda x: (x > 5).any(), [False]),
        (lambda x: x.softmax(1), [0.11920292, None, 0.88079708, None, None, None]),
        (lambda x: tt.nn.functional.softmax(x, dim=1), [0.11920292, None, 0.88079708, None, None, None]),
        (lambda x: x.cumsum(1), [1, None, 4, None, None, None]),
    ],
)
def test_calls_leave_out_what_is_masked_out(call, expected, device):
    found = shown(call(masked(device)))
    assert [each is None for each in found] == [each is None for each in expected]
    assert [e for e in found if e is not None] == pytest.approx([e for e in expected if e is not None])


def test_in_place_calls():
    x = masked()
    same = x
    x += 1
    assert same is x and x.mul_(2) is x and shown(x) == [4, None, 8, None, None, None]
    x.copy_(tt.zeros(2, 3))
    assert shown(x) == [0, None, 0, None, None, None]


def test_gradients_are_masked(device):
    x = masked(device, requires_grad=True)
    (x * x).sum().backward()
    assert shown(x.grad) == [2, None, 6, None, None, None] and M.is_masked_tensor(x.grad)
    (found,) = tt.autograd.grad(x.mean(), x)
    assert shown(found) == [0.5, None, 0.5, None, None, None]


def test_a_branch_that_is_not_taken_gives_no_nan(device):
    x = tt.tensor([-10.0, 0.0, 100.0], device=device)
    mask = x < 0
    a = M.masked_tensor(x, mask, requires_grad=True)
    b = M.masked_tensor(tt.ones_like(x), ~mask, requires_grad=True)
    tt.where(mask, tt.exp(a), b).sum().backward()
    assert shown(a.grad) == [pytest.approx(math.exp(-10)), None, None] and shown(b.grad) == [None, 1, 1]
    y = tt.tensor([1.0, 0.0], device=device, requires_grad=True)
    M.as_masked_tensor(y, y > 0).log().sum().backward()
    assert y.grad.tolist() == [1, 0]


def test_elements_as_numbers():
    assert masked()[0, 2].item() == 3 and masked().sum().item() == 4
    with pytest.raises(ValueError, match="expected an element that is not masked out"):
        masked()[0, 1].item()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: M.masked_tensor(3, x.get_mask()), TypeError, "data must be a Tensor, got int"),
        (lambda x: M.masked_tensor(x, x.get_mask()), TypeError, "data must be a Tensor, got MaskedTensor"),
        (lambda x: M.masked_tensor(x.get_data(), True), TypeError, "mask must be a Tensor"),
        (lambda x: M.masked_tensor(x.get_data(), x.get_data()), TypeError, "mask must have dtype bool"),
        (
            lambda x: M.masked_tensor(x.get_data(), x.get_mask()[0]),
            ValueError,
            "must equal mask.dim",
        ),
        (
            lambda x: M.masked_tensor(x.get_data(), x.get_mask().t()),
            ValueError,
            "must equal mask.size",
        ),
        (
            lambda x: M.masked_tensor(x.get_data().bfloat16(), x.get_mask()),
            TypeError,
            "bfloat16 is not supported",
        ),
        (lambda x: x + M.masked_tensor(x.get_data(), ~x.get_mask()), ValueError, "Input masks must match"),
        (lambda x: tt.matmul(x, x.t()), TypeError, "matmul"),
        (lambda x: x @ x.t(), TypeError, "unsupported operand|matmul"),
        (lambda x: x.sort(), TypeError, "sort"),
        (lambda x: x.numpy(), RuntimeError, "numpy"),
    ],
)
def test_errors(call, error, message):
    x = masked()
    with pytest.raises(error, match=message):
        call(x)
    assert shown(x) == [1, None, 3, None, None, None]


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("masked.amin", tt.float16, float("inf")),
        ("amax", tt.int32, -(2**31)),
        ("masked.sum", tt.int64, 0),
        ("prod", tt.complex64, 1),
    ],
)
def test_identities_are_tensors_of_the_dtype(name, dtype, expected):
    made = tt.masked._reduction_identity(name, tt.ones(2, dtype=dtype))
    assert made.dtype is dtype and made.shape == () and made.item() == expected
    assert tt.masked._reduction_identity("masked.mean", tt.ones(2)) is None
    assert tt.masked._reduction_identity("norm", tt.ones(2), float("-inf")).item() == float("inf")
    assert tt.masked._reduction_identity("median", tt.ones(2, dtype=tt.int64)).dtype is tt.float32


@pytest.mark.parametrize(
    ("alias", "operator"),
    [("arccos", "acos"), ("absolute", "abs"), ("fix", "trunc"), ("greater", "gt"), ("clip", "clamp")],
)
def test_aliases_are_pointwise_too(alias: str, operator: str) -> None:
    x = tt.masked.masked_tensor(tt.tensor([0.5, -0.5]), tt.tensor([True, False]))
    arguments = {"greater": (0.0,), "clip": (0.0, 0.25)}.get(alias, ())
    expected = getattr(tt, operator)(x, *arguments)
    assert str(getattr(tt, alias)(x, *arguments)) == str(getattr(x, alias)(*arguments)) == str(expected)
    assert str(getattr(x, f"{alias}_")(*arguments).get_data().tolist()) == str(
        expected.to(tt.float32).get_data().tolist()
    )
