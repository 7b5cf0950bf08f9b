"""Functions of the root that ask tensors, coordinates of shapes, and codes of classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional


def test_what_tensors_are() -> None:
    x = tt.ones(2, 3, dtype=tt.complex64)
    assert tt.is_tensor(x) and not tt.is_tensor(np.ones(1))
    assert tt.numel(x) == 6 and tt.is_complex(x) and not tt.is_floating_point(x)
    assert tt.is_nonzero(tt.tensor([[2]])) and not tt.is_nonzero(tt.tensor(0.0))


def test_checks_of_all_elements(device: str) -> None:
    holds, fails = tt.tensor([True, True], device=device), tt.tensor([True, False], device=device)
    tt._check_tensor_all(holds)
    tt._check_tensor_all_with(KeyError, tt.ones(0, dtype=tt.bool, device=device), lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        tt._check_tensor_all(fails)
    with pytest.raises(IndexError, match=r"^no$"):
        tt._check_tensor_all_with(IndexError, fails, lambda: "no")
    with pytest.raises(TypeError, match="cond must be a tensor, but got <class 'bool'>"):
        tt._check_tensor_all(True)
    with pytest.raises(TypeError, match=r"must have dtype torch\.bool, but got triten\.float32"):
        tt._check_tensor_all(tt.ones(2, device=device))
    with pytest.raises(TypeError, match="message must be a callable"):
        tt._check_tensor_all(fails, 3)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 9])
def test_triangles(device: str, offset: int) -> None:
    for rows, columns in ((3, 4), (4, 2), (0, 3), (2, 0)):
        for name in ("tril_indices", "triu_indices"):
            got = getattr(tt, name)(rows, columns, offset, dtype=tt.int32, device=device)
            expected = getattr(np, name[:4])(np.ones((rows, columns)), offset).nonzero()
            assert got.dtype is tt.int32 and got.is_contiguous()
            np.testing.assert_array_equal(got.cpu().numpy(), np.stack(expected))


def test_coordinates() -> None:
    places = tt.arange(24).reshape(4, 6)
    got = tt.unravel_index(places, (2, 3, 4))
    for a, b in zip(got, np.unravel_index(places.numpy(), (2, 3, 4)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    assert [x.tolist() for x in tt.unravel_index(tt.tensor([-1, 9]), (3, 2))] == [[2, 1], [1, 1]]
    assert tt.unravel_index(tt.tensor(3), 5)[0].item() == 3


def test_one_hot(device: str) -> None:
    classes = tt.tensor([[2, 0], [1, 2]], device=device)
    for count, columns in ((-1, 3), (5, 5)):
        got = F.one_hot(classes, count)
        np.testing.assert_array_equal(got.cpu().numpy(), np.eye(columns, dtype=int)[classes.cpu().numpy()])
    assert F.one_hot(tt.zeros(0, 2, dtype=tt.int64), 3).shape == (0, 2, 3)


def test_gumbel_softmax_draws_classes_by_their_weights(device: str) -> None:
    tt.manual_seed(2)
    logits = tt.log(tt.tensor([0.7, 0.2, 0.1], device=device)).expand(2000, 3).clone().requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert tt.allclose(hard.sum(1), tt.ones(2000, device=device))
    share = hard.detach().mean(0).tolist()
    assert all(abs(a - b) < 0.05 for a, b in zip(share, (0.7, 0.2, 0.1), strict=True))
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum().item() > 0
    soft = F.gumbel_softmax(logits.detach(), tau=0.5, dim=0)
    assert tt.allclose(soft.sum(0), tt.ones(3, device=device), atol=1e-4)


def test_arithmetic_by_its_other_names(device: str) -> None:
    x, y = tt.tensor([7, -7, 3], device=device), tt.tensor([2, 2, -2], device=device)
    assert tt.multiply(x, y).tolist() == [14, -14, -6] and x.multiply(2.5).dtype is tt.float32
    assert tt.subtract(x, y, alpha=3).tolist() == [1, -13, 9] and tt.subtract(1, x).tolist() == [-6, 8, -2]
    assert tt.divide(x, y).tolist() == [3.5, -3.5, -1.5]
    assert x.divide(y, rounding_mode="floor").tolist() == [3, -4, -2]
    assert x.clone().multiply_(2).subtract_(1).tolist() == [13, -15, 5]
    out = tt.empty(3, device=device)
    assert tt.divide(x, 2, rounding_mode="trunc", out=out) is out and out.tolist() == [3, -3, 1]


def test_orthogonal_rows() -> None:
    for shape in ((3, 5), (5, 3), (2, 2, 3)):
        made = tt.nn.init.orthogonal_(tt.empty(shape, dtype=tt.float64), gain=2).reshape(shape[0], -1).numpy()
        product = made @ made.T if made.shape[0] <= made.shape[1] else made.T @ made
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


REFUSED: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "Boolean value of Tensor with more than one value is ambiguous": (
        RuntimeError,
        lambda: tt.is_nonzero(tt.ones(2)),
    ),
    "Boolean value of Tensor with no values is ambiguous": (RuntimeError, lambda: tt.is_nonzero(tt.ones(0))),
    "\"tril_indices\" not implemented for 'Float'": (
        NotImplementedError,
        lambda: tt.tril_indices(2, 2, dtype=tt.float32),
    ),
    "row must be non-negative, got-2": (RuntimeError, lambda: tt.triu_indices(-2, 2)),
    "expected 'indices' to be integer dtype": (TypeError, lambda: tt.unravel_index(tt.ones(1), 2)),
    "'shape' cannot have negative values": (ValueError, lambda: tt.unravel_index(tt.tensor([1]), (-2,))),
    "expected 'shape' sequence to only contain ints": (
        TypeError,
        lambda: tt.unravel_index(tt.tensor([1]), (2.0,)),
    ),
    "one_hot is only applicable to index tensor of type LongTensor.": (
        RuntimeError,
        lambda: F.one_hot(tt.ones(2)),
    ),
    "Class values must be non-negative.": (RuntimeError, lambda: F.one_hot(tt.tensor([-1]))),
    "Class values must be smaller than num_classes.": (RuntimeError, lambda: F.one_hot(tt.tensor([2]), 2)),
    "Can not infer total number of classes from empty tensor.": (
        RuntimeError,
        lambda: F.one_hot(tt.zeros(0, dtype=tt.int64)),
    ),
    "Only tensors with 2 or more dimensions are supported": (
        ValueError,
        lambda: tt.nn.init.orthogonal_(tt.ones(2)),
    ),
    "in1_features must be > 0": (ValueError, lambda: tt.nn.Bilinear(0, 1, 1)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    kind, call = REFUSED[message]
    with pytest.raises(kind) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "nonzero value"), (False, "own text"), ([1, 1], "ambiguous"), ([], "no values")]
)
def test_assert_async_raises_for_zero(value, text) -> None:
    tt._assert_async(tt.tensor(2.0))
    with pytest.raises(RuntimeError, match=text):
        tt._assert_async(tt.tensor(value), *(["own text"] if value is False else []))


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"size": [3]}, r"Tensor sizes mismatch! Expected: \[3\], Got: \[2, 3\]"),
        ({"stride": [1, 2]}, r"Tensor strides mismatch! Expected: \[1, 2\], Got: \[3, 1\]"),
        ({"dtype": tt.int32}, "Tensor dtype mismatch! Expected: .*int32, Got: .*float32"),
        ({"device": "meta"}, "Tensor device mismatch! Expected: meta, Got: cpu"),
        ({"layout": tt.sparse_coo}, "Tensor layout mismatch!"),
    ],
)
def test_the_metadata_of_a_tensor_is_checked(metadata: dict[str, object], text: str) -> None:
    x = tt.ones(2, 3)
    tt._assert_tensor_metadata(x)
    tt._assert_tensor_metadata(x, [2, 3], [3, 1], tt.float32, device="cpu", layout=tt.strided)
    with pytest.raises(RuntimeError, match=text):
        tt._assert_tensor_metadata(x, **metadata)
