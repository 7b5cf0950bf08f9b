"""Complex numbers on CUDA: scatter, index sums, search, reductions and convolutions; integer histograms."""

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

DTYPES = {"complex64": 2e-5, "complex128": 1e-12}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "sliced": lambda x: x[..., ::2],
}


def numbers(rng, dtype, *sizes):
    return (rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)).astype(dtype)


def cuda(x):
    return tt.from_numpy(np.ascontiguousarray(x)).to("cuda")


def close(found, expected, dtype):
    assert found.dtype.np == expected.dtype
    comparison.close(found, expected, DTYPES[dtype], DTYPES[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_by_index(rng, dtype, layout):
    base, source = numbers(rng, dtype, 7, 10), numbers(rng, dtype, 7, 10)
    take = LAYOUTS[layout]
    x, s = take(cuda(base)), take(cuda(source))
    host, given = x.cpu().numpy().copy(), s.cpu().numpy().copy()
    rows = rng.integers(0, host.shape[0], given.shape[0])
    for alpha in (1, 2.5, 2 - 1j):
        expected = host.astype(np.complex128)
        np.add.at(expected, rows, given * np.complex128(alpha))
        close(x.index_add(0, cuda(rows), s, alpha=alpha), expected.astype(dtype), dtype)
    expected = host.copy()
    np.add.at(expected, rows, given)
    close(x.index_put((cuda(rows),), s, accumulate=True), expected, dtype)
    places = rng.integers(0, host.shape[0], given.shape)
    expected = host.copy()
    np.add.at(expected, (places, np.arange(given.shape[1])), given)
    close(x.scatter_add(0, cuda(places), s), expected, dtype)
    assert np.array_equal(x.cpu().numpy(), host)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_of_numbers_that_are_not_zero(rng, dtype, layout):
    values = np.array([0, -0.0, 1, 1j, complex(-0.0, -0.0), complex(0, np.nan), complex(np.inf, 0)], dtype)
    x = LAYOUTS[layout](cuda(rng.choice(values, (5, 6, 4))))
    expected = np.argwhere(x.cpu().numpy() != 0)
    assert np.array_equal(x.nonzero().cpu().numpy(), expected)
    padded = np.full((200, 3), -7)
    padded[: len(expected)] = expected
    assert np.array_equal(tt.nonzero_static(x, size=200, fill_value=-7).cpu().numpy(), padded)
    assert x[:0].nonzero().shape == (0, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms_of_sums_of_exponentials(rng, dtype):
    x = 3 * numbers(rng, dtype, 5, 33, 4)
    for layout in ("contiguous", "transposed"):
        y = LAYOUTS[layout](cuda(x))
        host = y.cpu().numpy().astype(np.complex128)
        for dims in ((0,), (1,), (0, 2), (0, 1, 2)):
            expected = np.log(np.exp(host).sum(dims)).astype(dtype)
            close(tt.logsumexp(y, dims), expected, dtype)
    line = 200 + numbers(rng, dtype, 3000)
    expected = np.log(np.exp(line.astype(np.complex128) - 200).sum()) + 200
    close(tt.logsumexp(cuda(line), 0), np.asarray(expected.astype(dtype)), dtype)


EDGES = [
    ([complex(-np.inf, 1), complex(1, 2), complex(-np.inf, np.nan), complex(-np.inf, np.inf)], 1 + 2j),
    ([complex(-np.inf, 1), complex(-np.inf, 2)], complex(-np.inf, 0)),
    ([complex(300, 2), complex(100, 1)], 300 + 2j),
    ([complex(np.nan, 1), complex(1, 2)], complex(np.nan, np.nan)),
    ([], complex(-np.inf, 0)),
]


@pytest.mark.parametrize(("given", "expected"), EDGES)
def test_edges_of_logarithms_of_sums(given, expected):
    found = tt.logsumexp(cuda(np.array(given, np.complex64)), 0).cpu().numpy()
    np.testing.assert_allclose(found, np.complex64(expected), rtol=1e-6)


def convolved(x, w, stride):
    """Compute a one-dimensional convolution without padding in complex128."""
    out = (x.shape[2] - w.shape[2]) // stride + 1
    windows = np.stack([x[:, :, i * stride : i * stride + w.shape[2]] for i in range(out)], 2)
    return np.einsum("nctk,ock->not", windows.astype(np.complex128), w.astype(np.complex128))


@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions_and_their_gradients(rng, dtype):
    x, w, b = numbers(rng, dtype, 2, 3, 11), numbers(rng, dtype, 4, 3, 3), numbers(rng, dtype, 4)
    expected = (convolved(x, w, 2) + b[:, None]).astype(dtype)
    tensors = [cuda(each).requires_grad_() for each in (x, w, b)]
    out = tt.nn.functional.conv1d(*tensors, stride=2)
    close(out, expected, dtype)
    alone = tt.nn.functional.conv1d(tensors[0][0], *tensors[1:], stride=2)
    close(alone, expected[0], dtype)
    host = [tt.from_numpy(each).requires_grad_() for each in (x, w, b)]
    out.abs().sum().backward()
    tt.nn.functional.conv1d(*host, stride=2).abs().sum().backward()
    for ours, theirs in zip(tensors, host, strict=True):
        close(ours.grad, theirs.grad.numpy(), dtype)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(rng, groups):
    x, w = numbers(rng, "complex64", 2, 4, 5, 4), numbers(rng, "complex64", 4, 3, 3, 2)
    window = {"stride": 2, "padding": 1, "output_padding": 1, "groups": groups}
    expected = tt.nn.functional.conv_transpose2d(tt.from_numpy(x), tt.from_numpy(w), **window).numpy()
    close(tt.nn.functional.conv_transpose2d(cuda(x), cuda(w), **window), expected, "complex64")


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_histograms_of_integers(rng, dtype):
    x = rng.integers(0, 60, 101).astype(dtype)
    inside = x[(x >= 3) & (x <= 45)].astype(np.int64)
    expected = np.bincount(np.minimum((inside - 3) * 8 // 42, 7), minlength=8).astype(dtype)
    found = tt.histc(cuda(x), 8, 3, 45).cpu().numpy()
    assert found.dtype == dtype
    assert np.array_equal(found, expected)
    assert tt.histc(cuda(x), 5).sum().item() == 101
    with pytest.raises(NotImplementedError, match="histogram_cpu"):
        tt.histc(tt.from_numpy(x), 8, 3, 45)


def test_truth_values_have_a_size_and_sums_without_nan():
    assert tt.abs(cuda(np.array([True, False]))).tolist() == [True, False]
    x = np.array([1 + 1j, complex(np.nan, 2), complex(3, np.nan), 2], np.complex64)
    assert tt.nansum(cuda(x)).item() == 3 + 1j
    with pytest.raises(RuntimeError, match="nansum on CPU does not support complex inputs"):
        tt.nansum(tt.from_numpy(x))
