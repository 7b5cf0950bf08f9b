"""Sorting and selection agree with the host: every dtype, direction and layout, short and long rows."""

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.transfer import copy_across
from triten.triton_kernels import launch as launches_of
from triten.triton_kernels.sorting import parts, radix, rows, select, sort, sort_keys

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
INTEGERS = [tt.bool, tt.int8, tt.uint8, tt.int16, tt.uint16, tt.int32, tt.uint32, tt.int64, tt.uint64]
EACH = pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda d: d.name)


@pytest.fixture
def draw(rng):
    """Return draw(sizes, dtype), which makes many equal elements, NaN, infinities and zeros of both signs."""

    def make(sizes, dtype):
        if dtype is tt.bool:
            return tt.from_numpy(rng.integers(0, 2, sizes).astype(np.bool_))
        if not dtype.is_floating_point:
            limits = np.iinfo(dtype.np)
            values = rng.integers(0, 12, sizes) - (4 if dtype.is_signed else 0)
            special = rng.choice(np.array([limits.min, limits.max, 0], object), sizes)
            return tt.from_numpy(np.where(rng.random(sizes) < 0.2, special, values).astype(dtype.np))
        values = np.round(rng.standard_normal(sizes) * 4)
        special = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-6], sizes)
        mixed = np.where(rng.random(sizes) < 0.3, special, values)
        return tt.from_numpy(mixed.astype(np.float32).astype(dtype.np))

    return make


def bits(x):
    """Return an array's bits, which distinguish -0.0 from 0.0."""
    host = x.cpu().contiguous().numpy()
    return host.view(f"u{host.itemsize}")


def agree(function, x, *arguments):
    """Assert that the device's values, bit by bit, its indices and its strides are the host's."""
    for got, expected in zip(function(x.to("cuda"), *arguments), function(x, *arguments), strict=True):
        assert got.dtype is expected.dtype
        assert got.stride() == expected.stride()
        np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.fixture
def long_lines(monkeypatch):
    """Treat rows of more than 16 elements as long, in tiles of 64."""
    for module in (sort, select, sort_keys):
        monkeypatch.setattr(module, "LONGEST", 16)
    monkeypatch.setattr(parts, "INTERPRETED_BLOCK", 64)


@EACH
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_order_is_stable_with_nan_last(draw, dtype, descending):
    x = draw((3, 37), dtype)
    values, indices = x.to("cuda").sort(1, descending)
    host = x.numpy().astype(np.float64) if dtype.is_floating_point else x.numpy().astype(object)
    for row, places in zip(host, indices.cpu().tolist(), strict=True):
        # Python's sort is stable; NaN is above all numbers.
        keys = [(v != v, 0 if v != v else v) for v in row.tolist()]
        assert places == sorted(range(37), key=keys.__getitem__, reverse=descending)
    np.testing.assert_array_equal(bits(values), bits(x.gather(1, indices.cpu())))


@EACH
def test_short_rows(draw, dtype):
    for sizes in [(), (1,), (2,), (5, 3), (17, 4, 2), (64, 33), (0, 3), (3, 0)]:
        x = draw(sizes, dtype)
        for dim in range(max(len(sizes), 1)):
            agree(lambda x, dim=dim: x.sort(dim), x)
            agree(lambda x, dim=dim: x.sort(stable=True, dim=dim, descending=True), x)


@pytest.mark.parametrize("dtype", [tt.float32, tt.int64], ids=lambda d: d.name)
def test_long_lines_whose_counts_take_64_bits(draw, long_lines, monkeypatch, dtype):
    monkeypatch.setattr(radix, "NARROW_COUNTS", 0)
    x = draw((2, 411), dtype)
    agree(lambda x: x.sort(dim=1, stable=True), x)
    agree(lambda x: x.sort(dim=1, stable=True, descending=True), x)


def test_a_sort_may_be_captured(draw, long_lines):
    x = draw((300,), tt.int32).to("cuda")
    x.sort(stable=True)
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        values, indices = x.sort(stable=True)
    x.copy_(draw((300,), tt.int32))
    for _ in range(2):  # the words are zero again
        graph.replay()
        tt.cuda.synchronize()
        expected = x.cpu().sort(stable=True)
        np.testing.assert_array_equal(values.cpu().numpy(), expected[0].numpy())
        np.testing.assert_array_equal(indices.cpu().numpy(), expected[1].numpy())


@EACH
def test_long_lines(draw, long_lines, dtype):
    for sizes, dim, descending in [((2, 67), 1, True), ((130,), 0, False)]:
        agree(lambda x, d=descending, dim=dim: x.sort(dim, d), draw(sizes, dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, tt.int8, tt.uint32, tt.int64], ids=lambda d: d.name)
@pytest.mark.parametrize("length", ["short", "long"])
def test_selection(request, draw, dtype, length):
    if length == "long":
        request.getfixturevalue("long_lines")
    n = 13 if length == "short" else 71
    x = draw((n, 2), dtype)
    for k in (0, 1, n) if length == "short" else (n // 2,):
        agree(lambda x, k=k: x.topk(k, 0), x)
        agree(lambda x, k=k: x.topk(k, 0, largest=False), x)
    agree(lambda x: x.kthvalue(5, 0), x)
    agree(lambda x: x.median(0, keepdim=True), x)
    agree(lambda x: (x.nanmedian(),), x)


def test_topk_takes_the_lowest_index_of_equal_elements(long_lines):
    for n in (12, 40):
        x = tt.tensor([3.0, 7.0] * (n // 2), device="cuda")
        assert x.topk(3)[1].tolist() == [1, 3, 5]
        assert x.topk(n // 2 + 2)[1].tolist()[-2:] == [0, 2]
        assert x.topk(2, largest=False)[1].tolist() == [0, 2]
        assert x.kthvalue(2)[1].item() == 2


def test_medians_of_nan():
    nan = float("nan")
    x = tt.tensor([[1.0, nan, 0.0, nan], [nan] * 4, [4.0, 3.0, 2.0, 1.0]], device="cuda")
    value, place = x.median(1)
    assert place.tolist() == [1, 0, 2]
    assert value.isnan().tolist() == [True, True, False]
    value, place = x.nanmedian(1)
    assert place.tolist() == [2, 0, 2]
    assert value[0].item() == 0.0
    assert value[1].isnan().item()
    assert tt.empty(0, device="cuda").median().isnan().item()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.permute(2, 0, 1),
        lambda x: x[:, ::2, 1:],
        lambda x: x[:, :1].expand(4, 20, 6),
        lambda x: x.flip((0, 1)),
        lambda x: x[:, 3:4],
    ],
    ids=["permuted", "stepped", "expanded", "flipped", "cut"],
)
def test_strides(draw, change):
    x = draw((4, 20, 6), tt.float32)
    for dim in (0, 1, 2):
        agree(lambda x, dim=dim: change(x).sort(dim), x)
        agree(lambda x, dim=dim: change(x).topk(1, dim), x)
        agree(lambda x, dim=dim: change(x).median(dim), x)


def test_outputs_of_any_strides_and_over_the_input(draw):
    x = draw((6, 40), tt.float32)
    values, indices = x.sort(1)
    for order in (lambda t: t, lambda t: t.t()):
        to = order(tt.empty(order(x).shape, device="cuda"))
        places = order(tt.empty(order(x).shape, dtype=tt.int64, device="cuda"))
        tt.sort(x.to("cuda"), 1, out=(to, places))
        np.testing.assert_array_equal(bits(to), bits(values))
        np.testing.assert_array_equal(bits(places), bits(indices))
    own = x.to("cuda")
    tt.sort(own, 1, out=(own, tt.empty(0, dtype=tt.int64, device="cuda")))
    np.testing.assert_array_equal(bits(own), bits(values))


@pytest.mark.parametrize("n", [rows.LONGEST, rows.LONGEST + 1])
def test_where_rows_become_long(draw, launches, n):
    x = draw((n,), tt.int8)
    device = x.to("cuda")
    before = launches.count
    device.sort()
    assert launches.count - before == (1 if n == rows.LONGEST else 2)
    agree(lambda x: x.sort(), x)


def test_offsets_beyond_the_index_limit(draw, long_lines, monkeypatch):
    monkeypatch.setattr(launches_of, "INT32_MAX", 60)
    x = draw((2, 91), tt.int16)
    agree(lambda x: x.topk(40, 1), x)
    agree(lambda x: x.nanmedian(1), x)
    agree(lambda x: x.sort(1), draw((9, 14), tt.float32))


def test_gradients(draw):
    for function in (
        lambda x: x.sort(1, True)[0],
        lambda x: x.topk(3, 0)[0],
        lambda x: x.kthvalue(2, 1)[0],
        lambda x: x.median(),
        lambda x: x.nanmedian(0, keepdim=True)[0],
    ):
        x = tt.rand(5, 7, dtype=tt.float64)
        found = []
        for device in ("cuda", "cpu"):
            leaf = x.to(device).requires_grad_()
            (function(leaf) ** 2).sum().backward()
            found.append(leaf.grad.cpu().numpy())
        np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("dtype", [tt.int32, tt.int64], ids=lambda d: d.name)
@pytest.mark.parametrize(("n", "largest"), [(1, 0), (9, 3), (200, 3), (200, 300)])
def test_keys_in_order(long_lines, dtype, n, largest):
    keys = np.random.default_rng(n).integers(0, largest + 1, n).astype(dtype.np)
    given = tt.from_numpy(keys).to("cuda")
    run = sort_keys.plan_sort(given.device, n, largest, dtype)
    ordered, order = run(given._data)
    for data, expected in ((ordered, np.sort(keys)), (order, np.argsort(keys, kind="stable"))):
        found = np.empty(n, dtype.np)
        copy_across(found, data, found.nbytes)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_none_of_a_number_is_the_number(device):
    """Copy a tensor without dimensions for any k, as PyTorch's topk does."""
    values, places = tt.tensor(7, device=device).topk(0)
    assert (values.tolist(), places.tolist()) == (7, 0)
