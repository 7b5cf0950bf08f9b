"""Histograms against NumPy's over the same edges, on both backends."""

import math

import numpy as np
import pytest

import triten as tt

DTYPES = [tt.float32, tt.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_dimension(rng, device, dtype, density, weighted):
    a = rng.integers(-40, 40, (13, 17)) / 8  # many of them lie on edges
    weight = rng.integers(0, 9, a.shape) / 4 if weighted else None
    x = tt.from_numpy(a).to(device).to(dtype)
    w = None if weight is None else tt.from_numpy(weight).to(device).to(dtype)
    for edges in (np.arange(-4, 5) / 2, np.array([-3.0, -0.5, 0.0, 0.125, 4.0])):
        hist, found = tt.histogram(x, tt.from_numpy(edges).to(device).to(dtype), weight=w, density=density)
        expected, _ = np.histogram(a, edges, weights=weight, density=density)
        np.testing.assert_allclose(hist.cpu().numpy(), expected, rtol=1e-6)
        np.testing.assert_array_equal(found.cpu().numpy(), edges)
        assert hist.dtype is found.dtype is dtype
    hist, found = x.histogram(16, range=(-4.0, 4.0), weight=w, density=density)
    expected, edges = np.histogram(a, 16, (-4, 4), weights=weight, density=density)
    np.testing.assert_allclose(hist.cpu().numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(found.cpu().numpy(), edges)


def test_edges_come_from_the_elements(device):
    x = tt.tensor([1.0, 2.0, 1.0, 3.0], device=device)
    hist, edges = tt.histogram(x, 4)
    assert hist.tolist() == [2, 0, 1, 1] and edges.tolist() == [1, 1.5, 2, 2.5, 3]
    assert tt.histogram(x[:1], 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    assert tt.histogram(x[:0], 2).hist.tolist() == [0, 0]
    assert tt.histogram(x[:0], 2).bin_edges.tolist() == [0, 0.5, 1]
    assert tt.histogram(x[0], 2).hist.tolist() == [0, 1]
    assert tt.histogram(x).hist.shape == (100,)


def test_nothing_beyond_the_edges_is_counted(device):
    inf, nan = math.inf, math.nan
    x = tt.tensor([-inf, -1.0, 0.0, -0.0, 0.5, 1.0, 1.5, inf, nan], device=device)
    edges = tt.tensor([0.0, 0.5, 1.0], device=device)
    assert tt.histogram(x, edges).hist.tolist() == [2, 2]
    weight = tt.tensor([nan, nan, 1.0, 2.0, 3.0, 4.0, nan, nan, nan], device=device)
    assert tt.histogram(x, edges, weight=weight).hist.tolist() == [3, 7]
    wide = tt.tensor([-inf, 0.5, inf], device=device)
    assert tt.histogram(x, wide).hist.tolist() == [4, 4]
    repeated = tt.tensor([0.0, 0.5, 0.5, 1.0], device=device)
    assert tt.histogram(x, repeated).hist.tolist() == [2, 0, 2]
    assert tt.histogram(x, repeated.flip(0)).hist.tolist() == [0, 0, 0]
    empty = tt.histogram(x[:0], edges, density=True).hist
    assert empty.isnan().all()


def test_weights_are_added_wide(device):
    weight = tt.tensor([2.0**24, 1.0, 1.0], device=device)
    hist = tt.histogram(tt.zeros(3, device=device), 1, range=(-1.0, 1.0), weight=weight).hist
    assert hist.item() == 2**24 + 2


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("density", [False, True])
def test_several_dimensions(rng, device, dtype, density):
    a = rng.integers(-16, 16, (5, 11, 3)) / 8
    weight = rng.integers(0, 9, (5, 11)) / 4
    x, w = (tt.from_numpy(given).to(device).to(dtype) for given in (a, weight))
    edges = [np.array([-2.0, 0.0, 1.0]), np.arange(-4, 5) / 2, np.array([-1.0, 1.0])]
    hist, found = tt.histogramdd(
        x, [tt.from_numpy(e).to(device).to(dtype) for e in edges], weight=w, density=density
    )
    expected, _ = np.histogramdd(a.reshape(-1, 3), edges, density=density, weights=weight.reshape(-1))
    np.testing.assert_allclose(hist.cpu().numpy(), expected, rtol=1e-6)
    assert [e.cpu().tolist() for e in found] == [e.tolist() for e in edges]
    for bins in (4, [4, 2, 8]):
        limits = [-2.0, 2.0, -1.0, 1.0, -2.0, 0.0]
        hist, found = tt.histogramdd(x, bins, range=limits, density=density)
        ranges = list(zip(limits[::2], limits[1::2], strict=True))
        expected, own = np.histogramdd(a.reshape(-1, 3), bins, ranges, density=density)
        np.testing.assert_allclose(hist.cpu().numpy(), expected, rtol=1e-6)
        for one, other in zip(found, own, strict=True):
            np.testing.assert_allclose(one.cpu().numpy(), other)


def test_results_are_written_into_given_tensors(device):
    x = tt.tensor([1.0, 2.0, 1.0], device=device)
    hist, edges = tt.empty(0, device=device), tt.empty(7, device=device)
    got = tt.histogram(x, 2, out=(hist, edges))
    assert got.hist is hist and hist.tolist() == [2, 1] and edges.tolist() == [1, 1.5, 2]
    tt.histogram(x, tt.tensor([0.0, 1.0], device=device), out=(hist, edges))
    assert hist.tolist() == [2] and edges.tolist() == [0, 1]


def test_shapes_on_meta():
    hist, edges = tt.histogram(tt.empty(5, device="meta"), 7)
    assert hist.shape == (7,) and edges.shape == (8,) and hist.is_meta
    assert tt.histogramdd(tt.empty(5, 2, device="meta"), [3, 4]).hist.shape == (3, 4)


def edges(*values, dtype=tt.float32):
    return tt.tensor(values, dtype=dtype)


REFUSED = {
    "no bins": (lambda x: tt.histogram(x, 0), "bins must be > 0, but got 0 for dimension 0"),
    "one edge": (lambda x: tt.histogram(x, edges(1.0)), "bins must be > 0, but got 0"),
    "no edge": (lambda x: tt.histogram(x, edges()), "at least 1 element, but got 0 elements"),
    "rank of edges": (lambda x: tt.histogram(x, edges([1.0, 2.0])), "one dimension, but got 2 dimensions"),
    "dtype of edges": (
        lambda x: tt.histogram(x, edges(1, 2, dtype=tt.int64)),
        "dimension 0 with dtype long int",
    ),
    "short range": (lambda x: tt.histogram(x, 2, range=(1.0,)), "range should have 2 elements, but got 1"),
    "endless range": (lambda x: tt.histogram(x, 2, range=(1.0, math.inf)), r"range \[1, inf\] is not finite"),
    "nan": (lambda x: tt.histogram(x * math.nan, 2), r"range \[nan, nan\] is not finite"),
    "range": (lambda x: tt.histogram(x, 2, range=(3.0, 0.0)), "but got min 3 max 0 for dimension 0"),
    "weights": (
        lambda x: tt.histogram(x, 2, weight=x[:1]),
        r"input with shape \[2, 1\] and weight with shape \[1\]",
    ),
    "dtype of weights": (
        lambda x: tt.histogram(x, 2, weight=x.double()),
        r"input\(float\), and weight\(double\)",
    ),
    "hist": (lambda x: tt.histogram(x, 2, out=(x.double(), x)), "input float and hist double"),
    "bin_edges": (lambda x: tt.histogram(x, 2, out=(x, x.double())), "bin_edges double for dimension 0"),
    "points": (lambda x: tt.histogramdd(x, [2]), "at least 2 dimensions"),
    "dimensions": (
        lambda x: tt.histogramdd(x.view(1, 2), [2]),
        "size of bins must be equal to the innermost",
    ),
    "sequences": (lambda x: tt.histogramdd(x.view(1, 2), [x]), "expected 2 sequences of bin edges"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(case):
    call, message = case
    with pytest.raises(RuntimeError, match=message):
        call(tt.tensor([1.0, 2.0]))


def test_dtypes_and_gradients_are_refused(device):
    for dtype in (tt.int64, tt.float16, tt.bfloat16, tt.complex64, tt.bool):
        with pytest.raises(NotImplementedError, match='"histogramdd" not implemented for'):
            tt.histogram(tt.ones(3, dtype=dtype, device=device), 2)
    hist = tt.histogram(tt.ones(3, device=device, requires_grad=True), 2).hist
    with pytest.raises((RuntimeError, NotImplementedError), match="derivative"):
        hist.sum().backward()


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int32, tt.int64])
def test_bincount_counts_or_adds_weights(device, dtype):
    x = tt.tensor([3, 0, 1, 1], dtype=dtype, device=device)
    assert tt.bincount(x).tolist() == [1, 2, 0, 1]
    assert x.bincount(minlength=6).tolist() == [1, 2, 0, 1, 0, 0]
    for weights, expected in ((tt.float32, tt.float32), (tt.float64, tt.float64), (tt.int64, tt.float64)):
        found = tt.bincount(x, tt.tensor([4, 1, 2, 3], device=device).to(weights))
        assert found.dtype is expected and found.tolist() == [1.0, 5.0, 0.0, 4.0]
    empty = tt.bincount(tt.zeros(0, dtype=dtype, device=device), minlength=2)
    assert empty.dtype is tt.int64 and empty.tolist() == [0, 0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        tt.bincount(x, out=empty)
    out = tt.empty(0, dtype=tt.int64, device=device)
    assert tt.ops.aten.bincount.out(x, out=out) is out and out.tolist() == [1, 2, 0, 1]


def test_bincount_has_no_derivative_and_no_meta(device):
    weights = tt.ones(2, device=device, requires_grad=True)
    found = tt.bincount(tt.tensor([0, 1], device=device), weights)
    assert found.requires_grad and found.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="derivative"):
        found.sum().backward()
    with pytest.raises(NotImplementedError, match="Meta"):
        tt.bincount(tt.ones(2, dtype=tt.int64, device="meta"))


def test_bincount_of_mapped_numbers_needs_as_many_bins_for_each_example(device):
    x = tt.tensor([[0, 1, 3], [2, 1, 0]], device=device)
    assert tt.vmap(lambda x: tt.bincount(x, minlength=4))(x).tolist() == [[1, 1, 0, 1], [1, 1, 1, 0]]
    weights = tt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)
    found = tt.vmap(lambda weights: tt.bincount(x[0], weights))(weights)
    assert found.tolist() == [[1.0, 2.0, 0.0, 3.0], [4.0, 5.0, 0.0, 6.0]]
    with pytest.raises(RuntimeError, match="equal size"):
        tt.vmap(tt.bincount)(x)


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        ([0.5], {}, NotImplementedError, "not implemented for 'Float'"),
        ([True], {}, NotImplementedError, "not implemented for 'Bool'"),
        ([-1], {}, RuntimeError, "non-negative"),
        ([[1]], {}, RuntimeError, "1-d"),
        (1, {}, RuntimeError, "1-d"),
        ([1], {"minlength": -1}, RuntimeError, "minlength should be >= 0"),
        ([1], {"weights": tt.ones(2)}, RuntimeError, "weights should be 1-d"),
    ],
)
def test_bincount_takes_whole_numbers_from_zero_on(values, options, error, message):
    with pytest.raises(error, match=message):
        tt.bincount(tt.tensor(values), **options)


def test_bin_edges_of_several_dimensions_are_a_tuple(device):
    x = tt.tensor([[0.0, 1.0], [1.0, 0.0]], device=device)
    assert type(tt.histogramdd(x, [2, 2]).bin_edges) is tuple
    assert type(tt.histogramdd(x, 2).bin_edges) is tuple
