"""Search in sorted sequences, membership, unique elements, modes: against NumPy, on the CPU and interpreted."""

import math
import re

import numpy as np
import pytest

import triten as tt

DEVICES = ("cpu", "cuda")
NAN = float("nan")
DTYPES = [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64, tt.float16, tt.bfloat16, tt.float32, tt.float64]


def drawn(rng, dtype, *sizes, high=6):
    low = 0 if dtype is tt.bool or not dtype.is_signed else -high
    return tt.from_numpy(rng.integers(low, 2 if dtype is tt.bool else high, sizes)).to(dtype)


def array(x):
    x = x.cpu()
    return (x.float() if x.is_floating_point() else x).numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_places_in_a_sequence(rng, device, dtype):
    line, values = drawn(rng, dtype, 17).sort()[0], drawn(rng, dtype, 3, 7, high=8)
    for side in ("left", "right"):
        want = np.searchsorted(array(line), array(values), side)
        got = tt.searchsorted(line.to(device), values.to(device).t(), side=side)
        np.testing.assert_array_equal(array(got), want.T)
        got = tt.bucketize(values.to(device), line.to(device), right=side == "right", out_int32=True)
        assert got.dtype is tt.int32
        np.testing.assert_array_equal(array(got), want)


@pytest.mark.parametrize("device", DEVICES)
def test_places_in_rows_of_their_own_through_a_sorter(device):
    rng = np.random.default_rng(1)
    rows, values = drawn(rng, tt.float32, 2, 3, 9), drawn(rng, tt.float32, 2, 3, 4)
    order = tt.argsort(rows, -1)
    want = [[np.searchsorted(np.sort(r), v) for r, v in zip(a, b, strict=True)]
            for a, b in zip(array(rows), array(values), strict=True)]  # fmt: skip
    got = tt.searchsorted(rows.to(device), values.to(device), sorter=order.to(device))
    np.testing.assert_array_equal(array(got), want)
    out = tt.empty(2, 3, 4, dtype=tt.int64, device=device)
    turned = rows.sort(-1)[0].to(device).transpose(0, 1).contiguous().transpose(0, 1)
    assert tt.searchsorted(turned, values.to(device), out=out) is out
    np.testing.assert_array_equal(array(out), want)


@pytest.mark.parametrize("device", DEVICES)
def test_nan_is_behind_everything_and_stands_before_it(device):
    line = tt.tensor([1.0, 2.0, NAN], device=device)
    values = tt.tensor([1.5, 5.0, NAN, float("inf"), -0.0], device=device)
    assert tt.searchsorted(line, values).tolist() == [1, 3, 3, 3, 0]
    assert tt.searchsorted(line[:2], values, right=True).tolist() == [1, 2, 2, 2, 0]
    empty = tt.empty(0, device=device)
    assert tt.searchsorted(empty, values).tolist() == [0] * 5
    assert tt.searchsorted(line, empty).shape == (0,)
    assert tt.searchsorted(tt.empty(2, 0, device=device), tt.ones(2, 3, device=device)).sum() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_are_promoted(device):
    line = tt.tensor([1, 2, 3], device=device)
    assert tt.searchsorted(line, 2.5).item() == 2 and tt.bucketize(2, line, right=True).item() == 2
    assert tt.searchsorted(line, tt.tensor([0.5, 2.5], device=device)).tolist() == [0, 2]
    # Rounded to bfloat16, both are 256.
    assert tt.searchsorted(tt.tensor([256.0], dtype=tt.bfloat16, device=device), 257).item() == 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("invert", [False, True])
def test_membership(device, invert):
    x = tt.tensor([[1.0, NAN, -0.0], [3.0, 4.0, 1.0]], device=device)
    tests = tt.tensor([0.0, 4.0, NAN, 9.0], device=device)
    want = np.isin(array(x), array(tests), invert=invert)
    assert (array(tt.isin(x, tests, invert=invert)) == want).all()
    assert tt.isin(x, tests[:0], invert=invert).tolist() == np.full((2, 3), invert).tolist()
    assert tt.isin(x, 4, invert=invert).tolist() == [[invert] * 3, [invert, not invert, invert]]
    assert tt.isin(4.0, tests, invert=invert).item() is not invert


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.bool, *DTYPES], ids=lambda d: d.name)
def test_unique_elements(rng, device, dtype):
    x = drawn(rng, dtype, 5, 7)
    want = np.unique(array(x), return_inverse=True, return_counts=True)
    got = tt.unique(x.to(device), return_inverse=True, return_counts=True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(array(g), w.reshape(g.shape))
    strided = x.to(device).t()[::2]
    np.testing.assert_array_equal(array(strided.unique()), np.unique(array(strided)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_unique_rows_are_compared_as_words_are(rng, device, width):
    x = drawn(rng, tt.int64, 9, width, high=2)
    want = np.unique(array(x), axis=0, return_inverse=True, return_counts=True)
    for dim, given in ((0, x), (1, x.t())):
        values, *more = tt.unique(given.to(device), dim=dim, return_inverse=True, return_counts=True)
        np.testing.assert_array_equal(array(values if dim == 0 else values.t()), want[0])
        for g, w in zip(more, want[1:], strict=True):
            np.testing.assert_array_equal(array(g), w.reshape(-1))


@pytest.mark.parametrize("device", DEVICES)
def test_runs(device):
    x = tt.tensor([2.0, NAN, NAN, 1.0, 1.0, 2.0], device=device)
    values, run, count = x.unique_consecutive(return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(array(values), [2, NAN, NAN, 1, 2])
    assert run.tolist() == [0, 1, 2, 3, 3, 4] and count.tolist() == [1, 1, 1, 2, 1]
    rows = tt.tensor([[1, 1, 2], [3, 3, 3]], device=device)
    values, run, count = tt.unique_consecutive(rows, True, True, 1)
    assert values.tolist() == [[1, 2], [3, 3]] and run.tolist() == [0, 0, 1] and count.tolist() == [2, 1]


@pytest.mark.parametrize("device", DEVICES)
def test_what_there_is_none_of(device):
    empty = tt.empty(2, 0, device=device)
    values, inverse, counts = tt.unique(empty, return_inverse=True, return_counts=True)
    assert (values.shape, inverse.shape, counts.shape) == ((0,), (2, 0), (0,))
    assert tt.unique(empty, dim=1).shape == (2, 0)
    assert [t.shape for t in tt.mode(tt.empty(0, 3, device=device), 1)] == [(0,), (0,)]
    assert tt.unique(tt.tensor(3.0, device=device), return_inverse=True)[1].shape == ()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.bool, *DTYPES], ids=lambda d: d.name)
def test_the_most_frequent_element(rng, device, dtype):
    x = drawn(rng, dtype, 4, 11, high=3)
    values, places = tt.mode(x.to(device), 1)
    for row, value, place in zip(array(x), array(values), array(places), strict=True):
        found, count = np.unique(row, return_counts=True)
        assert value == found[np.argmax(count)]
        assert place == np.flatnonzero(row == value)[-1]
    assert tt.mode(x.t().to(device), 0, True)[0].shape == (1, 4)


def test_nan_is_one_element_for_mode():
    assert tt.mode(tt.tensor([1.0, NAN, 2.0, NAN])).indices.item() == 3
    assert tt.mode(tt.tensor([1.0, NAN])).values.item() == 1


def test_gradients_of_what_was_chosen():
    x = tt.tensor([[3.0, 1.0, 3.0]], requires_grad=True)
    tt.mode(x, 1).values.sum().backward()
    assert x.grad.tolist() == [[0, 0, 1]]


T = tt.tensor
ERRORS = [
    (lambda: tt.searchsorted(T([1, 2]), T([1]), side="x"), RuntimeError, "side can only be 'left' or 'right' but"),
    (lambda: tt.searchsorted(T([1, 2]), T([1]), side="left", right=True), RuntimeError, "set to opposites"),
    (lambda: tt.searchsorted(T([1, 2]), T([1]), sorter=T([0])), RuntimeError, "must have the same size"),
    (lambda: tt.searchsorted(T([1, 2]), T([1]), sorter=T([0, 2])), RuntimeError, "sorter index out of range"),
    (lambda: tt.searchsorted(T([1, 2]).cuda(), T([1]).cuda(), sorter=T([0, -1]).cuda()), RuntimeError, "out of range"),
    (lambda: tt.searchsorted(T([1, 2]), T([1]), sorter=T([0, 1], dtype=tt.int32)), RuntimeError, "long dtype but got"),
    (lambda: tt.searchsorted(T([[1, 2]]), 2), RuntimeError, "input value can be a scalar only when"),
    (lambda: tt.searchsorted(T([[1, 2], [3, 4]]), T([1])), RuntimeError, "first N-1 dimensions"),
    (lambda: tt.searchsorted(T(1), T([1])), RuntimeError, "positive dimension, but got 0 dimension"),
    (lambda: tt.searchsorted(T([True]), T([True])), NotImplementedError, "not implemented for 'Bool'"),
    (lambda: tt.searchsorted(T([1]), T([1]), out=T([0], dtype=tt.int32)), RuntimeError, "tensor's dtype is wrong"),
    (lambda: tt.searchsorted(T([1]), T([1]).cuda()), RuntimeError, "should have same device type"),
    (lambda: tt.bucketize(T([1]), T([[1]])), RuntimeError, "boundaries tensor must be 1 dimension, but got dim(2)"),
    (lambda: tt.isin(T([True]), T([True])), RuntimeError, "Unsupported input type encountered for isin(): Bool"),
    (lambda: tt.unique(T([1j])), NotImplementedError, "\"unique\" not implemented for 'ComplexFloat'"),
    (lambda: tt.unique(tt.ones(2, 0), dim=0), RuntimeError, "There are 0 sized dimensions, and they aren't selected"),
    (lambda: tt.unique(tt.ones(0, 0), dim=0), RuntimeError, "Number of zero sized dimensions is more than one"),
    (lambda: tt.unique(tt.ones(()), dim=0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda: tt.unique(tt.ones(2, device="meta")), NotImplementedError, "Meta"),
    (lambda: tt.mode(tt.ones(3, 0)), IndexError, "Expected reduction dim 1 to have non-zero size"),
    (lambda: tt.mode(T([1j])), NotImplementedError, "not implemented for 'ComplexFloat'"),
]  # fmt: skip


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_refusals_are_pytorchs(call, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        call()


def test_sorted_elements_lie_as_they_lay():
    one = tt.arange(12.0).reshape(3, 4)[0, 3:4:3]
    assert one.stride() == (3,) and all(each.stride() == (3,) for each in tt.sort(one))
    turned = tt.arange(6.0).reshape(2, 3).t()
    assert tt.sort(turned, 0).values.stride() == turned.stride()


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("right", [False, True])
def test_rows_of_many_values(rng, rows, right):
    sequence, values = np.sort(rng.integers(0, 9, (rows, 7)), 1), rng.integers(-1, 10, (rows, 40))
    sequence, values = sequence.astype(np.float32), values.astype(np.float32)
    side = "right" if right else "left"
    values[0, 0] = math.nan
    made = tt.searchsorted(tt.from_numpy(sequence), tt.from_numpy(values), right=right)
    expected = [np.searchsorted(s, v, side) for s, v in zip(sequence, values, strict=True)]
    np.testing.assert_array_equal(made.numpy(), np.stack(expected))
    sequence[0, -1] = math.nan
    whole = tt.searchsorted(tt.from_numpy(sequence), tt.from_numpy(values), right=right)
    few = tt.searchsorted(tt.from_numpy(sequence[:1]), tt.from_numpy(values[:1, :3]), right=right)
    assert tt.equal(whole[1:], made[1:]) and tt.equal(whole[:1, :3], few)
