"""Indexing and joining: values against NumPy or loops, PyTorch's index forms and errors, gradients."""

import re

import ml_dtypes
import numpy as np
import pytest

import triten as tt
from triten.dispatch.autograd.gradients import grad
from triten.runtime.memory_format import channels_last

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]


def make(*sizes, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 10, sizes)
    if dtype == "bool":
        return values > 0
    if dtype == "complex64":
        return (values + 1j * rng.integers(-9, 10, sizes)).astype(np.complex64)
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def plain(tensor):
    array = tensor.detach().numpy()
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype == ml_dtypes.bfloat16 else array


def same(tensor, array):
    assert tuple(tensor.shape) == array.shape
    np.testing.assert_array_equal(
        plain(tensor), array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    )


def index_of(*values):
    return tt.from_numpy(np.array(values, np.int64))


FORMS = [
    1,
    -1,
    np.int64(2),
    (1, 2),
    (1, 2, 3),
    slice(1, None),
    slice(-9, 9, 2),
    (slice(None), 1),
    (slice(None), slice(1, 3), -1),
    Ellipsis,
    (Ellipsis, 0),
    None,
    (None, 1, Ellipsis, None),
    (slice(None), None, slice(1, 3), Ellipsis, None),
    [0, 2],
    [],
    (slice(None), [0, 2]),
    ([0, 2], slice(None), [1, 3]),
    ([0, 2], [1, 3]),
    ([[0], [1]], [1, 3]),
    (slice(None), [0, 2], [1, 3]),
    ([0, -1], None, [1, 3]),
    (Ellipsis, [0, 1]),
    [True, False, True],
    (slice(None), [True, False, True, True]),
    ([True, False, True], [0, 1]),
    ([True, False, True], slice(None), [0, 1]),
    np.arange(12).reshape(3, 4) % 2 == 0,
    np.arange(60).reshape(3, 4, 5) % 7 == 0,
    (slice(None), np.arange(20).reshape(4, 5) % 3 == 0),
    np.array([[0, 1], [1, 2]]),
    np.array(1),
    True,
    False,
    (slice(None), True),
    (slice(2, 1),),
    (),
]


def numpys(index):
    """Convert an index for NumPy, where an empty list must also be a list of integers."""
    return np.zeros(0, np.int64) if isinstance(index, list) and not index else index


def in_tensors(index):
    """Convert an index's lists and arrays to tensors."""
    items = index if isinstance(index, tuple) else (index,)
    made = []
    for item in items:
        if isinstance(item, list):
            item = np.array(item, bool if item and isinstance(item[0], bool) else np.int64)
        made.append(tt.from_numpy(np.asarray(item)) if isinstance(item, np.ndarray) else item)
    return tuple(made)


@pytest.mark.parametrize("index", FORMS, ids=[str(f).replace("\n", "") for f in FORMS])
@pytest.mark.parametrize("spelling", [lambda index: index, in_tensors], ids=["python", "tensors"])
def test_getitem_and_setitem_as_numpy(index, spelling):
    a = make(3, 4, 5)
    x = tt.from_numpy(a.copy())
    key = spelling(index)
    wanted = np.asarray(a[numpys(index)])
    same(x[key], wanted)
    same(x[key], wanted)
    for value in (7.0, np.float64(-3), make(*wanted.shape, seed=5)):
        b = a.copy()
        b[numpys(index)] = value
        x[key] = tt.from_numpy(np.asarray(value)) if isinstance(value, np.ndarray) else value
        same(x, b)
        x.copy_(tt.from_numpy(a))


GETITEM_ERRORS = [
    (lambda x: x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x[0, -5], IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    (lambda x: x[:, 9], IndexError, "index 9 is out of bounds for dimension 1 with size 4"),
    (lambda x: x[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
    (lambda x: x[..., 0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
    (lambda x: tt.tensor(1.0)[0], IndexError, "invalid index of a 0-dim tensor"),
    (lambda x: tt.tensor(1.0)[0:1], IndexError, "slice() cannot be applied to a 0-dim tensor."),
    (lambda x: x[:, ::0], ValueError, "slice step cannot be zero"),
    (lambda x: x[1.5], IndexError, "only integers, slices"),
    (lambda x: x[1.5:], TypeError, "slice indices must be integers"),
    (lambda x: x["a"], TypeError, "invalid data type 'str'"),
    (
        lambda x: x[tt.tensor([1.0])],
        IndexError,
        "tensors used as indices must be long, int, byte or bool tensors",
    ),
    (lambda x: x[index_of(5)], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (
        lambda x: x[index_of(0), index_of(-5)],
        IndexError,
        "index -5 is out of bounds for dimension 1 with size 4",
    ),
    (
        lambda x: x[[True, False]],
        IndexError,
        "The shape of the mask [2] at index 0 does not match the shape of the indexed",
    ),
    (
        lambda x: x[index_of(0, 1), index_of(0, 1, 2)],
        IndexError,
        "could not be broadcast together with shapes [2], [3]",
    ),
    (lambda x: tt.ones(0, 3)[index_of(0)], IndexError, "index is out of bounds for dimension with size 0"),
]
SETITEM_ERRORS = [
    (0, [1, 2], TypeError, "can't assign a list to a triten.FloatTensor"),
    (0, np.ones(4), TypeError, "can't assign a numpy.ndarray"),
    (
        slice(0, 2),
        tt.ones(3, 4),
        RuntimeError,
        "The expanded size of the tensor (2) must match the existing size (3)",
    ),
    (
        [0, 1],
        tt.ones(3),
        RuntimeError,
        "value tensor of shape [3] cannot be broadcast to indexing result of shape [2, 4]",
    ),
    (
        [0, 1],
        tt.ones(4, dtype=tt.float64),
        RuntimeError,
        "Index put requires the source and destination dtypes match",
    ),
    (0, 1j, RuntimeError, "without overflow"),
    (7, 1.0, IndexError, "index 7 is out of bounds"),
]


@pytest.mark.parametrize(("call", "kind", "words"), GETITEM_ERRORS)
def test_getitem_refusals(call, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        call(tt.ones(3, 4))


@pytest.mark.parametrize(("index", "value", "kind", "words"), SETITEM_ERRORS)
def test_setitem_refusals(index, value, kind, words):
    x = tt.zeros(3, 4)
    with pytest.raises(kind, match=re.escape(words)):
        x[index] = value
    assert not x.numpy().any()


def test_setitem_casts_and_strips_leading_ones():
    x = tt.zeros(3, dtype=tt.int64)
    x[0] = 2.9
    x[1:] = tt.tensor([[[1.5, -1.5]]])
    assert x.tolist() == [2, 1, -1]
    x[True] = 4
    assert x.tolist() == [4, 4, 4]


def test_basic_indices_are_views_and_advanced_ones_are_copies():
    x = tt.zeros(3, 4)
    x[1][2] = 1.0
    x[:, 3][0] = 2.0
    x[index_of(0)].fill_(9.0)
    assert x.tolist() == [[0, 0, 0, 2], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_a_loop_over_rows_keeps_one_plan():
    x = tt.from_numpy(make(300, 2))
    before = sum(len(t) for t in tt.dispatch.methods.subscripts._basic_plans.values())
    total = [x[i].tolist() for i in range(300)]
    assert total == x.tolist()
    assert sum(len(t) for t in tt.dispatch.methods.subscripts._basic_plans.values()) == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_values_of_every_dtype_and_layout(dtype, layout):
    a, b = make(4, 6, dtype=dtype), make(4, 6, dtype=dtype, seed=1)
    x, y = tt.from_numpy(a), tt.from_numpy(b)
    if layout == "transposed":
        a, b, x, y = a.T, b.T, x.t(), y.t()
    rows = np.array([2, 0, 2], np.int64)
    r = tt.from_numpy(rows)
    mask = make(*a.shape, dtype="bool", seed=3)
    m = tt.from_numpy(mask)
    same(tt.cat([x, y], 1), np.concatenate([a, b], 1))
    same(tt.stack([x, y], -1), np.stack([a, b], -1))
    same(tt.hstack([x, y]), np.hstack([a, b]))
    same(tt.vstack([x, y]), np.vstack([a, b]))
    same(tt.dstack([x, y]), np.dstack([a, b]))
    same(x.index_select(1, r), a[:, rows])
    same(x[r], a[rows])
    same(x[r, r], a[rows, rows])
    same(x[m], a[mask])
    same(x.masked_select(m), a[mask])
    same(x.masked_fill(m, 1), np.where(mask, np.ones((), a.dtype), a))
    same(x.flip(0, 1), a[::-1, ::-1])
    same(x.roll(1, 0), np.roll(a, 1, 0))
    same(x.roll((1, -2), (0, 1)), np.roll(a, (1, -2), (0, 1)))
    same(x.repeat(2, 1, 2), np.tile(a, (2, 1, 2)))
    same(x.tril(1), np.tril(a, 1))
    same(x.triu(-1), np.triu(a, -1))
    same(x.take(index_of(3, -1)), a.reshape(-1)[[3, -1]])
    same(x.nonzero(), np.argwhere(a.astype(np.float32) if a.dtype == ml_dtypes.bfloat16 else a))
    same(tt.embedding(x, r), a[rows])
    index = np.array([[0, 1], [2, 0], [1, 1]], np.int64)
    i = tt.from_numpy(index)
    same(x.gather(1, i), np.take_along_axis(a[:3], index, 1))
    expected = a.copy()
    for p, q in np.ndindex(3, 2):
        expected[index[p, q] % 3, q] = b[p, q]
    put = x.scatter(0, tt.from_numpy(np.array([[0, 2], [2, 0], [1, 1]], np.int64)), y)
    expected = a.copy()
    for p, q in np.ndindex(3, 2):
        expected[[[0, 2], [2, 0], [1, 1]][p][q], q] = b[p, q]
    same(put, expected)


@pytest.mark.parametrize("sizes", [(130, 64), (65, 200), (1, 5000), (5000, 1), (2, 3, 70, 129)])
def test_triangles_of_large_matrices(sizes):
    """Masks are made for bands of rows, whose diagonals begin and end anywhere."""
    a = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    a[..., 0, 0] = np.nan
    x = tt.tensor(a)
    for diagonal in (-5001, -129, -65, -64, -1, 0, 63, 64, 128, 5001):
        for name in ("tril", "triu"):
            expected = getattr(np, name)(a, diagonal)
            np.testing.assert_array_equal(getattr(x, name)(diagonal).numpy(), expected)
            np.testing.assert_array_equal(getattr(x.clone(), f"{name}_")(diagonal).numpy(), expected)
            turned = x.transpose(-1, -2).contiguous().transpose(-1, -2)
            np.testing.assert_array_equal(getattr(turned, name)(diagonal).numpy(), expected)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_sums_over_equal_indices(dtype):
    a, b = make(5, 3, dtype=dtype), make(40, 3, dtype=dtype, seed=1)
    wide = np.float32 if dtype in ("float16", "bfloat16") else a.dtype
    places = np.random.default_rng(2).integers(0, 5, 40)
    expected = a.astype(wide)
    with np.errstate(over="ignore"):
        np.add.at(expected, places, b.astype(wide))
    x, s, p = tt.from_numpy(a), tt.from_numpy(b), tt.from_numpy(places)
    want = expected.astype(a.dtype)
    same(x.index_add(0, p, s), want)
    same(x.index_put((p,), s, accumulate=True), want)
    same(x.scatter_add(0, p.unsqueeze(1).expand(40, 3), s), want)
    same(x.t().index_add(1, p, s.t()), want.T)
    y = tt.from_numpy(a.copy())
    assert y.index_put_((p,), s, accumulate=True) is y
    same(y, want)
    if dtype != "uint8" and "int" not in dtype:
        zero = np.zeros((5, 3), wide)
        np.add.at(zero, places, b.astype(wide))
        same(tt.ops.aten.embedding_dense_backward(s, p, 5, -1, False), zero.astype(a.dtype))


def test_accumulation_is_deterministic_and_rounds_narrow_floats_once():
    x = tt.zeros(1, dtype=tt.bfloat16)
    ones = tt.ones(1000, dtype=tt.bfloat16)
    assert x.index_put((tt.zeros(1000, dtype=tt.int64),), ones, True).item() == 1000.0


def test_index_put_of_several_indices_with_gaps():
    a = make(3, 4, 5)
    b = make(2, 4, seed=1)
    expected = a.copy()
    np.add.at(expected, (np.array([0, 0]), slice(None), np.array([1, 1])), b)
    x = tt.from_numpy(a)
    got = x.index_put((index_of(0, 0), None, index_of(1, 1)), tt.from_numpy(b), True)
    same(got, expected)
    got = x.index_put((None, index_of(0, -4), index_of(1, 1)), tt.tensor(2.0, dtype=tt.float64), True)
    expected = a.copy()
    expected[:, 0, 1] += 4
    same(got, expected)
    mask = a > 0
    same(x.index_put((tt.from_numpy(mask),), tt.tensor(9.0, dtype=tt.float64)), np.where(mask, 9.0, a))


def test_scatter_reduces_and_numbers():
    x = tt.ones(2, 3)
    i = tt.from_numpy(np.array([[0, 0, 1], [0, 1, 1]]))
    assert x.scatter(0, i, 5.0).tolist() == [[5, 5, 1], [1, 5, 5]]
    src = tt.from_numpy(np.full((2, 3), 2, np.float32))
    assert x.scatter(0, i, src, reduce="add").tolist() == [[5, 3, 1], [1, 3, 5]]
    assert x.scatter(0, i, src, reduce="multiply").tolist() == [[4, 2, 1], [1, 2, 4]]
    y = tt.zeros(2, 3)
    assert y.scatter_(1, i, 1.0) is y and y.tolist() == [[1, 1, 0], [1, 1, 0]]
    assert y.scatter_add_(1, i, x) is y and y.tolist() == [[3, 2, 0], [2, 3, 0]]


def test_cat_promotes_skips_legacy_empties_and_keeps_channels_last():
    both = tt.cat([tt.tensor([1, 2]), tt.tensor([0.5])])
    assert both.dtype is tt.float32 and both.tolist() == [1.0, 2.0, 0.5]
    assert tt.cat([tt.ones(0), tt.ones(2, 3)], 1).shape == (2, 3)
    x = tt.ones(2, 3, 4, 5).contiguous(memory_format=channels_last)
    assert tt.cat([x, x], 1).is_contiguous(memory_format=channels_last)
    assert tt.cat([x, tt.ones(2, 3, 4, 5)], 1).is_contiguous()
    out = tt.zeros(3, dtype=tt.float64)
    assert tt.cat([tt.ones(1), tt.ones(2)], out=out) is out and out.tolist() == [1.0, 1.0, 1.0]
    sliced = tt.zeros(3, 4)
    tt.cat([tt.ones(3), tt.ones(0)], out=sliced[:, 1])
    assert sliced.sum().item() == 3


def test_index_keeps_the_order_of_the_dimensions_it_does_not_pick():
    x = tt.ones(2, 3, 4, 5).contiguous(memory_format=channels_last)
    assert x[index_of(0, 1)].stride() == (60, 1, 15, 3)


def test_embedding_padding_and_frequency():
    weight = tt.from_numpy(make(4, 2)).requires_grad_()
    rows = index_of(1, 1, 2, 0)
    out = tt.embedding(weight, rows, 2)
    out.backward(tt.ones(4, 2, dtype=tt.float64))
    assert weight.grad.tolist() == [[1, 1], [2, 2], [0, 0], [0, 0]]
    scaled = tt.ops.aten.embedding_dense_backward(tt.ones(4, 2), rows, 4, -1, True)
    assert scaled.tolist() == [[1, 1], [1, 1], [1, 1], [0, 0]]
    table = tt.from_numpy(np.array([[3.0, 4.0], [0.3, 0.4]]))
    tt.embedding_renorm_(table, index_of(0, 1), 1.0, 2.0)
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_nonzero_forms():
    x = tt.from_numpy(np.array([[0, 1], [2, 0]]))
    assert x.nonzero().tolist() == [[0, 1], [1, 0]] and x.nonzero().stride() == (1, 2)
    rows, columns = tt.nonzero(x, as_tuple=True)
    assert rows.tolist() == [0, 1] and columns.tolist() == [1, 0]
    assert tt.tensor(5).nonzero().shape == (1, 0) and tt.tensor(0).nonzero().shape == (0, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_infinity_and_signed_zero_pass_unchanged(dtype):
    a = np.array([[np.nan, np.inf, -0.0], [1.0, -np.inf, 0.0]]).astype(make(1, dtype=dtype).dtype)
    x = tt.from_numpy(a)
    bits = f"uint{a.dtype.itemsize * 8}"
    for got, want in [
        (tt.cat([x, x]), np.concatenate([a, a])),
        (x[index_of(1, 0)], a[[1, 0]]),
        (x.flip(0), a[::-1]),
        (x.gather(1, index_of([2, 1], [0, 0])), np.array([[a[0, 2], a[0, 1]], [a[1, 0], a[1, 0]]])),
    ]:
        np.testing.assert_array_equal(got.numpy().view(bits), np.ascontiguousarray(want).view(bits))
    assert plain(x.masked_fill(tt.tensor([[True, False, False], [True] * 3]), 2))[0, 0] == 2
    assert np.signbit(plain(x.tril())[0, 2]) == np.False_


def test_empty_tensors():
    x = tt.ones(0, 3)
    none = index_of()
    assert x[none].shape == (0, 3)
    assert tt.ones(4, 3)[none].shape == (0, 3)
    assert tt.ones(4, 3).index_select(1, none).shape == (4, 0)
    assert tt.ones(4, 3).gather(0, tt.zeros(0, 3, dtype=tt.int64)).shape == (0, 3)
    assert tt.ones(2, 3).index_add(0, none, tt.ones(0, 3)).sum().item() == 6
    assert tt.embedding(tt.ones(4, 3), tt.zeros(2, 0, dtype=tt.int64)).shape == (2, 0, 3)
    assert tt.cat([x, x]).shape == (0, 3) and tt.stack([x, x]).shape == (2, 0, 3)
    assert x.nonzero().shape == (0, 2) and x.repeat(2, 2).shape == (0, 6) and x.roll(1).shape == (0, 3)
    assert tt.ones(3)[tt.zeros(3, dtype=tt.bool)].shape == (0,)


ERRORS = [
    (lambda x: tt.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (lambda x: tt.cat([x, x[0]]), RuntimeError, "Tensors must have same number of dimensions: got 2 and 1"),
    (
        lambda x: tt.cat([x, tt.ones(3, 5)]),
        RuntimeError,
        "Expected size 4 but got size 5 for tensor number 1 in the list.",
    ),
    (
        lambda x: tt.cat([tt.tensor(1.0)]),
        RuntimeError,
        "zero-dimensional tensor (at position 0) cannot be concatenated",
    ),
    (lambda x: tt.cat([x], 2), IndexError, "Dimension out of range"),
    (
        lambda x: tt.cat([x], out=tt.zeros(3, 4, dtype=tt.int64)),
        TypeError,
        "can't be cast to the desired output type Long",
    ),
    (lambda x: tt.stack([x, x[0]]), RuntimeError, "but got [3, 4] at entry 0 and [4] at entry 1"),
    (lambda x: tt.hstack([]), RuntimeError, "hstack expects a non-empty TensorList"),
    (lambda x: x.index_select(0, index_of(3)), IndexError, "index out of range in self"),
    (lambda x: x.index_select(0, tt.tensor([0.0])), RuntimeError, "Expected dtype int32 or int64 for index"),
    (lambda x: x.index_select(0, index_of([0])), IndexError, "Index is supposed to be a vector"),
    (
        lambda x: x.gather(0, index_of([5])),
        RuntimeError,
        "index 5 is out of bounds for dimension 0 with size 3",
    ),
    (
        lambda x: x.gather(0, index_of([-1])),
        RuntimeError,
        "index -1 is out of bounds for dimension 0 with size 3",
    ),
    (
        lambda x: x.gather(0, index_of(0)),
        RuntimeError,
        "Index tensor must have the same number of dimensions",
    ),
    (
        lambda x: x.gather(0, tt.zeros(1, 9, dtype=tt.int64)),
        RuntimeError,
        "Size does not match at dimension 1 expected index",
    ),
    (lambda x: x.gather(0, tt.zeros(1, 1)), RuntimeError, "gather(): Expected dtype int32/int64 for index"),
    (lambda x: x.scatter(0, index_of([5]), 1.0), RuntimeError, "index 5 is out of bounds"),
    (
        lambda x: x.scatter(0, index_of([0]), tt.ones(1, 1, dtype=tt.float64)),
        RuntimeError,
        "Expected self.dtype to be equal to src.dtype",
    ),
    (
        lambda x: x.scatter(0, index_of([0]), 1.0, reduce="mean"),
        RuntimeError,
        "reduce argument must be either add or multiply.",
    ),
    (
        lambda x: x.index_add(0, index_of(0), x),
        RuntimeError,
        "Number of indices (1) should be equal to source.size(dim): (3)",
    ),
    (
        lambda x: x.index_add(0, index_of(0), tt.ones(1, 5)),
        RuntimeError,
        "source tensor shape must match self tensor shape",
    ),
    (lambda x: x.masked_fill(x, 1.0), RuntimeError, "masked_fill_ only supports boolean masks"),
    (
        lambda x: x.masked_fill(tt.ones(3, 4, dtype=tt.bool), tt.ones(2)),
        RuntimeError,
        "only supports a 0-dimensional value tensor",
    ),
    (lambda x: x.masked_fill(x > 0, 1 + 2j), RuntimeError, "value cannot be converted to type float without"),
    (
        lambda x: x.index_fill(0, index_of(0), 1 + 0j),
        RuntimeError,
        "index_fill_(): Converting complex Scalar",
    ),
    (
        lambda x: x.index_fill(0, index_of(0), tt.ones(2)),
        RuntimeError,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).",
    ),
    (lambda x: x.bool().argmax(7), RuntimeError, "argmax(): does not support bool input"),
    (
        lambda x: x.masked_fill_(tt.ones(2, 3, 4, dtype=tt.bool), 1),
        RuntimeError,
        "doesn't match the broadcast shape [2, 3, 4]",
    ),
    (lambda x: x.masked_select(x), RuntimeError, "masked_select: expected BoolTensor for mask"),
    (
        lambda x: x.take(index_of(50)),
        IndexError,
        "out of range: tried to access index 50 on a tensor of 12 elements.",
    ),
    (lambda x: tt.embedding(x, index_of(3)), IndexError, "index out of range in self"),
    (lambda x: tt.embedding(x, index_of(-1)), IndexError, "index out of range in self"),
    (lambda x: tt.embedding(x[0], index_of(0)), RuntimeError, "'weight' must be 2-D"),
    (lambda x: x.flip(0, 0), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: x.roll(1, (0, 1)), RuntimeError, "shifts and dimensions must align. shifts: 1, dims:2"),
    (lambda x: x.repeat(2), RuntimeError, "Number of dimensions of repeat dims"),
    (lambda x: x[0].tril(), RuntimeError, "tril: input tensor must have at least 2 dimensions"),
    (
        lambda x: x.expand(2, 3, 4).index_put_((index_of(0),), tt.tensor(1.0)),
        RuntimeError,
        "more than one element of the written-to",
    ),
    (lambda x: x.to("meta").nonzero(), NotImplementedError, "Meta"),
    (lambda x: x.to("meta")[tt.ones(3, dtype=tt.bool).to("meta")], NotImplementedError, "Meta"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_refusals_are_pytorchs(call, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        call(tt.ones(3, 4))


def test_a_mask_fills_with_a_complex_number_that_is_real():
    for x in (tt.ones(3), tt.ones(3, dtype=tt.int16), tt.ones(70_000)):
        assert (x.masked_fill(x > 0, 2 + 0j) == 2).all()


MASK = np.arange(12).reshape(3, 4) % 3 == 0
COLUMNS = [[0, 3], [1, 1], [2, 0]]
LINEAR = [
    ("cat", lambda x: tt.cat([x, x.t().reshape(3, 4), tt.ones(0, dtype=tt.float64)], 1)),
    ("stack", lambda x: tt.stack([x, x], 1)),
    ("index", lambda x: x[index_of(0, 2, 0)]),
    ("index_two", lambda x: x[index_of(0, 2, 0), index_of(1, -1, 1)]),
    ("index_column", lambda x: x[:, [1, 1, -1]]),
    ("mask", lambda x: x[tt.from_numpy(MASK)]),
    ("masked_select", lambda x: x.masked_select(tt.from_numpy(MASK))),
    ("index_select", lambda x: x.index_select(1, index_of(3, 3, 0))),
    ("index_put", lambda x: tt.zeros(5, 4, dtype=tt.float64).index_put((index_of(4, 0, 2),), x)),
    ("index_put_self", lambda x: x.index_put((index_of(1),), tt.zeros((), dtype=tt.float64))),
    ("index_put_add", lambda x: x.index_put((index_of(1, 1, 0),), x, True)),
    ("index_add", lambda x: x.index_add(0, index_of(1, 1, 0), x)),
    ("index_add_source", lambda x: tt.zeros(5, 4, dtype=tt.float64).index_add(0, index_of(4, 1, 4), x)),
    ("index_copy", lambda x: x.index_copy(0, index_of(2), x[:1])),
    ("index_fill", lambda x: x.index_fill(1, index_of(0, 0), 0.0)),
    ("gather", lambda x: x.gather(1, index_of(*COLUMNS))),
    ("scatter", lambda x: x.scatter(1, index_of([0, 3], [1, 2], [2, 0]), x)),
    ("scatter_value", lambda x: x.scatter(1, index_of(*COLUMNS), 0.0)),
    ("scatter_add", lambda x: x.scatter_add(1, index_of(*COLUMNS), x)),
    ("masked_fill", lambda x: x.masked_fill(tt.from_numpy(MASK), 0.0)),
    ("masked_fill_broadcast", lambda x: x[0].masked_fill(tt.from_numpy(MASK), 0.0)),
    ("take", lambda x: x.take(index_of(3, 3, -1))),
    ("embedding", lambda x: tt.embedding(x, index_of([0, 2], [2, 2]))),
    ("flip", lambda x: x.flip(1)),
    ("roll", lambda x: x.roll((1, 2), (0, 1))),
    ("repeat", lambda x: x.repeat(2, 1, 3)),
    ("tile", lambda x: x.tile(2)),
    ("tril", lambda x: x.tril()),
    ("triu", lambda x: x.triu(1)),
    ("rot90", lambda x: x.rot90()),
]


@pytest.mark.parametrize(("name", "function"), LINEAR, ids=[row[0] for row in LINEAR])
def test_gradients_are_adjoints_and_second_ones_the_maps_themselves(name, function):
    rng = np.random.default_rng(0)
    x = tt.from_numpy(rng.standard_normal((3, 4))).requires_grad_()
    out = function(x)
    v = tt.from_numpy(rng.standard_normal(tuple(out.shape))).requires_grad_()
    (g,) = grad(out, [x], [v], create_graph=True)
    expected = np.zeros((3, 4))
    unit = np.zeros((3, 4))
    for place in np.ndindex(3, 4):
        unit[place] = 1
        expected[place] = (function(tt.from_numpy(unit.copy())).numpy() * v.detach().numpy()).sum()
        unit[place] = 0
    np.testing.assert_allclose(g.detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    u = tt.from_numpy(rng.standard_normal((3, 4)))
    (second,) = grad(g, [v], [u])
    np.testing.assert_allclose(second.numpy(), function(u).numpy(), rtol=1e-12, atol=1e-14)


def test_gradients_of_values_that_are_put():
    value = tt.tensor(2.0).requires_grad_()
    x = tt.zeros(3, 4)
    x.masked_fill(tt.from_numpy(MASK), value).backward(tt.ones(3, 4))
    assert value.grad.item() == MASK.sum()
    values = tt.ones(4).requires_grad_()
    y = x.index_put((index_of(0, 1),), values)
    y.backward(tt.ones(3, 4))
    assert values.grad.tolist() == [2, 2, 2, 2]


def test_setitem_is_recorded():
    x = tt.ones(3, 4).requires_grad_()
    v = tt.ones(2).requires_grad_()
    y = x.clone()
    y[index_of(0, 2), 1] = v
    y[tt.from_numpy(MASK)] = 0.0
    y.sum().backward()
    expected = np.where(MASK, 0.0, 1.0)
    expected[[0, 2], 1] = 0
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    assert v.grad.tolist() == [1.0, 0.0]


def test_an_index_written_to_before_backward_is_refused():
    x = tt.ones(3).requires_grad_()
    i = index_of(0, 1)
    y = x[i]
    i.fill_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_out_and_in_place_forms_write_where_they_are_told():
    x = tt.from_numpy(make(3, 4))
    i = index_of([0, 1], [1, 2])
    for function, arguments in [
        (tt.index_select, (0, index_of(0, 2))),
        (tt.gather, (1, i)),
        (tt.take, (i,)),
        (tt.masked_select, (tt.from_numpy(MASK),)),
        (tt.tril, (0,)),
    ]:
        want = function(x, *arguments)
        out = tt.zeros(*want.shape, dtype=tt.float64)
        address = out.data_ptr()
        assert function(x, *arguments, out=out) is out and out.data_ptr() == address
        same(out, want.numpy())
        strided = tt.zeros(*want.shape, 2, dtype=tt.float64)[..., 0]
        function(x, *arguments, out=strided)
        same(strided, want.numpy())
    for name, arguments in [
        ("index_add", (0, index_of(1, 1), tt.ones(2, 4, dtype=tt.float64))),
        ("index_copy", (0, index_of(1), tt.ones(1, 4, dtype=tt.float64))),
        ("index_fill", (0, index_of(1), 3.0)),
        ("scatter", (1, i, 3.0)),
        ("masked_fill", (tt.from_numpy(MASK), 3.0)),
        ("put", (index_of(1, 2), tt.ones(2, dtype=tt.float64))),
        ("triu", ()),
    ]:
        want = getattr(x, name)(*arguments)
        for target in (tt.from_numpy(x.numpy().copy()), tt.from_numpy(x.numpy().T.copy()).t()):
            assert getattr(target, name + "_")(*arguments) is target and target.current_version() > 0
            same(target, want.numpy())


ON_META = [
    lambda x, i: tt.cat([x, x], 1),
    lambda x, i: tt.stack([x, x], 1),
    lambda x, i: x[i],
    lambda x, i: x[:, i, None],
    lambda x, i: x[i, i],
    lambda x, i: x[1, ..., ::2],
    lambda x, i: x.index_put((i,), x[0]),
    lambda x, i: x.index_select(1, i),
    lambda x, i: x.index_add(0, i, x[:2]),
    lambda x, i: x.gather(1, i.unsqueeze(1)),
    lambda x, i: x.scatter(1, i.unsqueeze(1), 2.0),
    lambda x, i: x.scatter_add(1, i.unsqueeze(1), x),
    lambda x, i: x.take(i),
    lambda x, i: tt.embedding(x, i),
    lambda x, i: x.flip(0),
    lambda x, i: x.roll(1, 0),
    lambda x, i: x.repeat(2, 2),
    lambda x, i: x.tril(),
]


@pytest.mark.parametrize("function", ON_META, ids=[str(n) for n in range(len(ON_META))])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_meta_has_the_cpus_shape_strides_and_dtype(function, layout):
    x, i = tt.from_numpy(make(3, 4)), index_of(1, 0)
    x = x.t().clone() if layout == "transposed" else x
    here, there = function(x, i), function(x.to("meta"), i.to("meta"))
    assert (here.shape, here.stride(), here.dtype) == (there.shape, there.stride(), there.dtype)
    assert there.is_meta


def test_take_along_dim_broadcasts_and_counts_from_the_end():
    x = tt.from_numpy(make(3, 4))
    got = tt.take_along_dim(x, index_of([-1, 0]), 1)
    same(got, x.numpy()[:, [-1, 0]])
    with pytest.raises(RuntimeError, match="out of bounds"):
        tt.take_along_dim(x, index_of([-5]), 1)


def test_scattered_writes_refuse_a_source_that_they_overwrite():
    x = tt.arange(6.0).view(2, 3)
    for write in (
        lambda: x.index_add_(0, index_of(1, 0), x),
        lambda: x.index_copy_(0, index_of(1, 0), x.view(2, 3)),
        lambda: x.index_add_(0, index_of(0), x[1:]),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize(("short", "name"), [("max", "amax"), ("min", "amin")])
def test_short_names_of_combinations_have_no_derivative(short, name, device):
    x, index = tt.tensor([1.0, 5.0, 3.0], device=device), tt.tensor([0, 1, 1], device=device)
    source = tt.tensor([4.0, 2.0, 7.0], device=device, requires_grad=True)
    made = x.scatter_reduce(0, index, source, short)
    assert made.tolist() == x.scatter_reduce(0, index, source, name).tolist()
    with pytest.raises(RuntimeError, match=f"Expected 'reduce' to be one of .* but got {short}"):
        made.sum().backward()
    with pytest.raises(RuntimeError, match="Expected reduce to be one of prod, mean, amax or amin"):
        x.index_reduce(0, index, source.detach(), short)


def test_a_truth_value_for_an_index_writes_all_or_nothing():
    x = tt.zeros(2, 3)
    x[True] = tt.ones(2, 3, dtype=tt.bfloat16)
    assert x.tolist() == [[1.0] * 3] * 2
    x[False] = 5
    assert x.tolist() == [[1.0] * 3] * 2


def test_an_element_of_a_tensor_fills_it():
    x = tt.arange(4.0)
    x[:] = x[2]
    assert x.tolist() == [2.0] * 4
    value = tt.tensor(1.5, dtype=tt.float64, requires_grad=True)
    x[1:] = value
    x.sum().backward()
    assert x.tolist() == [2.0, 1.5, 1.5, 1.5] and value.grad.item() == 3 and value.grad.dtype is tt.float64


def test_a_turned_tensor_is_none_of_its_steps_views(device):
    weight = tt.ones(2, 2, device=device, requires_grad=True)
    with tt.no_grad():
        turned = tt.arange(4.0, device=device).reshape(2, 2).rot90()
    turned.mul_(weight)
    assert turned.tolist() == [[1.0, 3.0], [0.0, 2.0]] and turned.requires_grad


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (tt.uint8, 300, "uint8_t"),
        (tt.uint8, -1, None),
        (tt.int8, 1000.0, "int8_t"),
        (tt.int64, float("nan"), "int64_t"),
        (tt.float16, 1e30, "Half"),
        (tt.float16, float("inf"), None),
        (tt.bool, 3, None),
    ],
)
def test_masked_fill_takes_a_tensor_as_its_number(dtype, value, error):
    x, mask = tt.zeros(3, dtype=dtype), tt.tensor([True, False, True])
    if error is not None:
        with pytest.raises(RuntimeError, match="without overflow"):
            x.masked_fill_(mask, tt.tensor(value))
        assert not x.to(tt.bool).any() and x._version == 0
        return
    filled = x.masked_fill(mask, tt.tensor(value))
    assert tt.equal(filled, x.masked_fill(mask, value))


def test_index_fill_of_what_overlaps_lies_as_its_copy_does():
    x = tt.zeros(4, 2).expand(2, 4, 2).swapaxes(0, -1)
    assert x.index_fill(-1, tt.tensor([1]), 2).stride() == x.clone().stride() == (2, 4, 1)


SCATTERS = {
    "scatter": lambda x, src, index: x.scatter(0, index, src),
    "scatter_add": lambda x, src, index: x.scatter_add(0, index, src),
    **{
        f"{reduce} {include}": lambda x, src, index, r=reduce, i=include: x.scatter_reduce(
            0, index, src, r, include_self=i
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    },
}


@pytest.mark.parametrize("name", SCATTERS)
def test_derivatives_of_scatters_by_an_index_without_elements(name) -> None:
    index = tt.empty(0, dtype=tt.int64)
    x, src = tt.ones(3, 4, requires_grad=True), tt.ones(2, 4, requires_grad=True)
    result = SCATTERS[name](x, src, index)
    of_x, of_src = tt.autograd.grad(result.sum(), (x, src), allow_unused=True)
    assert of_x.tolist() == tt.ones(3, 4).tolist()
    assert of_src is None or of_src.tolist() == tt.zeros(2, 4).tolist()
    plain = (x.detach(), src.detach())
    _, tangent = tt.func.jvp(lambda x, src: SCATTERS[name](x, src, index), plain, plain)
    assert tangent.tolist() == tt.ones(3, 4).tolist()


def test_a_mask_on_the_cpu_indexes_a_cuda_tensor(device):
    x, mask = tt.arange(4.0, device=device), tt.tensor([True, False, True, False])
    assert x[mask].tolist() == [0, 2]
    x[mask] = 7
    assert x.tolist() == [7, 1, 7, 3]
    x[mask] = tt.tensor(8.0)
    assert x.tolist() == [8, 1, 8, 3]
    y = tt.zeros(2, 4, device=device)
    y[:, mask] = 5.0
    assert y.tolist() == [[5, 0, 5, 0]] * 2


def test_an_output_on_another_device_is_named():
    x = tt.arange(4.0, device="cuda")
    with pytest.raises(
        RuntimeError, match="on the same device, but found at least two devices, cuda:0 and cpu!"
    ):
        tt.nonzero(x, out=tt.empty(0, dtype=tt.int64))
