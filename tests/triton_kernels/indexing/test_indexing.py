"""Indexing on CUDA is bitwise identical to the host: sums over equal indices have the same order."""

import numpy as np
import pytest

import triten as tt
from triten.nn import functional as F

DTYPES = [tt.bool, tt.uint8, tt.int16, tt.int64, tt.float16, tt.bfloat16, tt.float32, tt.float64]
FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
MOVED = [*DTYPES, tt.float8_e4m3fn, tt.complex64, tt.complex128]


def name(value):
    return getattr(value, "name", None)


@pytest.fixture
def index(rng):
    """Return index(size, *sizes), which makes indices below `size`, some of them repeated."""

    def make(size, *sizes, dtype=tt.int64):
        return tt.from_numpy(np.asarray(rng.integers(0, size, sizes))).to(dtype)

    return make


@pytest.fixture
def agree(same):
    """Return agree(function, *host tensors), which compares both devices."""

    def check(function, *tensors):
        same(function(*(t.to("cuda") for t in tensors)), function(*tensors))

    return check


@pytest.mark.parametrize("dtype", MOVED, ids=name)
def test_elements_are_picked(random, agree, index, dtype):
    x = random((4, 5, 6)).to(dtype)
    i, j, wide = index(4, 3), index(5, 2, 3), index(5, 4, 7, 6)
    agree(lambda x, i: x[i], x, i)
    agree(lambda x, i: x[:, i - 3], x, j)
    agree(lambda x, i, j: x[i, j], x, i, j)
    agree(lambda x, i: x[i, :, i], x, i)
    agree(lambda x, i: x.index_select(2, i), x, i.to(tt.int32))
    agree(lambda x, i: x.gather(1, i), x, wide)
    agree(lambda x, i: x.take(i - 60), x, index(120, 2, 5))
    agree(lambda x, i: F.embedding(i, x[0]), x, j - 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.permute((2, 0, 1)),
        lambda x: x[:, ::2],
        lambda x: x[:1].expand((4, 5, 6)),
        lambda x: x[1:, 2:],
    ],
    ids=["permuted", "stepped", "expanded", "cut"],
)
def test_strided_sources(random, agree, index, change):
    x = random((4, 5, 6))
    i = index(3, 2, 3)
    agree(lambda x, i: change(x)[i], x, i)
    agree(lambda x, i: change(x)[:, i.t()], x, i)
    agree(lambda x, i: change(x)[i, ..., i], x, i)
    agree(lambda x, i: change(x).index_select(1, i[0]), x, i)
    agree(lambda x, i: change(x).gather(2, i.expand((2, 2, 3))), x, i)
    agree(lambda x, i: change(x).take(i), x, i)
    agree(lambda x: tt.cat([change(x), change(x)], -1), x)
    agree(lambda x: change(x).flip((0, 2)), x)
    agree(lambda x: change(x).tril(-1), x)
    agree(lambda x: change(x).triu(1), x)
    agree(lambda x: tt.nonzero(change(x) > 0), x)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_index_put(random, agree, index, dtype, accumulate):
    x = random((4, 5, 6), dtype)
    i, j = index(4, 9), index(5, 9)
    for values in (random((9, 5, 6), dtype), random((5, 1), dtype), random((), dtype)):
        agree(lambda x, i, v: x.index_put((i,), v, accumulate), x, i, values)
    agree(lambda x, i, j, v: x.index_put((i, j), v, accumulate), x, i, j, random((9, 6), dtype))
    agree(
        lambda x, i, j, v: x.index_put((i[:3], None, j[:2, None]), v, accumulate),
        x,
        i,
        j,
        random((2, 3, 5), dtype),
    )
    agree(lambda x, v: x.index_put((None,), v, accumulate), x, random((5, 6), dtype))
    agree(
        lambda x, i, v: x.clone().permute((2, 1, 0)).index_put_((None, i - 5), v, accumulate),
        x,
        j,
        random((6, 9, 4), dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_slices_by_index(random, agree, index, dtype):
    x, source, i = random((4, 5, 6), dtype), random((4, 8, 6), dtype), index(5, 8)
    agree(lambda x, i, s: x.index_add(1, i, s), x, i, source)
    agree(lambda x, i, s: x.index_copy(1, i, s), x, i, source)
    agree(lambda x, i, s: x.permute((1, 0, 2)).index_add(0, i, s.permute((1, 0, 2))), x, i, source)
    if dtype is not tt.bool:
        agree(lambda x, i, s: x.index_add(1, i, s, alpha=3), x, i, source)
    agree(lambda x, i: x.index_fill(1, i, 1), x, i)
    number = random((), dtype)
    agree(
        lambda x, s: x.index_add(0, tt.zeros(1, dtype=tt.int64, device=x.device), s), number, source[0, 0, 0]
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_scatter(random, agree, index, dtype):
    x, source, i = random((4, 5, 6), dtype), random((4, 7, 6), dtype), index(5, 3, 6, 4)
    agree(lambda x, i, s: x.scatter(1, i, s), x, i, source)
    agree(lambda x, i: x.scatter(1, i, 1), x, i)
    agree(lambda x, i, s: x.scatter_add(1, i, s), x, i, source)
    agree(lambda x, i: x.scatter(1, i, 1, reduce="add"), x, i)
    agree(lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), x, i, source)
    agree(
        lambda x, i, s: x.transpose(0, 2).scatter_add(1, i.transpose(0, 2), s.transpose(0, 2)), x, i, source
    )


@pytest.mark.parametrize("dtype", MOVED, ids=name)
def test_put_moves_every_dtype(random, agree, index, dtype):
    x, values = random((4, 5)).to(dtype), random((9, 5)).to(dtype)
    agree(lambda x, i, v: x.index_put((i,), v), x, index(4, 9), values)
    agree(lambda x, i, v: x.t().index_copy(1, i, v.t()), x, index(4, 9), values)


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_embedding_dense_backward(random, agree, index, dtype, by_frequency, padding):
    grad, i = random((4, 5, 6), dtype), index(9, 4, 5)
    agree(lambda g, i: tt.ops.aten.embedding_dense_backward(g, i, 9, padding, by_frequency), grad, i)
    agree(
        lambda g, i: tt.ops.aten.embedding_dense_backward(g.transpose(0, 1), i.t(), 9, padding, by_frequency),
        grad,
        i,
    )


@pytest.mark.parametrize("norm", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_embedding_renorm(random, same, index, norm):
    a, i = random((30, 7)), index(30, 3, 4)
    x = a.to("cuda")
    same(tt.embedding_renorm_(x, i.to("cuda"), 1.0, norm), tt.embedding_renorm_(a, i, 1.0, norm), 1e-6)


def test_of_several_values_for_a_place_the_last_stays(rng, agree, index):
    values = tt.from_numpy(rng.permutation(20000).astype(np.float32))
    agree(lambda x, i, v: x.index_put((i,), v), tt.zeros(50), index(50, 20000), values)
    agree(lambda x, i, v: x.scatter(0, i, v), tt.zeros(50), index(50, 20000), values)


@pytest.mark.parametrize("size", [1, 3, 300, 1 << 20])
def test_sums_over_many_keys_keep_the_source_s_order(random, agree, index, size):
    n = 20000 if size >= 300 else 100
    agree(lambda x, i, v: x.scatter_add(0, i, v), tt.zeros(size), index(size, n), random((n,)))


def test_sums_over_more_keys_than_a_program_sorts(random, agree, index):
    n = (1 << 16) + 100
    agree(lambda x, i, v: x.index_put((i,), v, True), tt.zeros(70000), index(70000, n), random((n,)))


@pytest.mark.parametrize("dtype", [tt.int32, tt.int64], ids=str)
@pytest.mark.parametrize("n", [1, 300, 4097])
def test_gradients_of_embeddings_of_any_number(random, launches, n, dtype):
    """Sort by keys of one digit and of three, with indices of several dimensions and rows without an index."""
    indices = np.random.default_rng(n).integers(0, 90_000, (n, 1))
    indices[:40] %= 7
    rows = random((n, 1, 5))
    for number, padding, scaled in ((90_000, -1, False), (90_000, 3, False), (90_000, -1, True)):
        arguments = (number, padding, scaled)
        where = tt.from_numpy(indices).to(dtype)
        expected = tt.ops.aten.embedding_dense_backward(rows, where, *arguments)
        dirty = tt.full((number, 5), 7.0, device="cuda")
        del dirty  # so that its memory, which is not zero, comes again
        before = launches.count
        got = tt.ops.aten.embedding_dense_backward(rows.to("cuda"), where.to("cuda"), *arguments)
        assert launches.count - before == (3 if n <= 4096 else 5)
        np.testing.assert_allclose(got.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5 * n**0.5)


def test_gradients_of_embeddings_begin_with_zero():
    where = tt.tensor([1, 1, 2], device="cuda")
    rows = tt.full((3, 2), -0.0, device="cuda")
    got = tt.ops.aten.embedding_dense_backward(rows, where, 4, -1, False).cpu().numpy()
    assert not np.signbit(got).any()
    assert not tt.ops.aten.embedding_dense_backward(rows[:0], where[:0], 4, -1, False).cpu().numpy().any()


def test_picking_over_more_dimensions_than_a_launch_has(random, agree, index):
    x, i = random((2, 3, 2, 3, 2, 3, 2)), index(2, 2, 2)
    turned = (5, 1, 3, 6, 0, 4, 2)
    agree(lambda x, i: x.permute(turned)[:, i], x, i)
    agree(lambda x, i: x.permute(turned)[:, i, :, i], x, i)
    agree(lambda x, i: x.permute(turned).gather(0, i), x, index(3, 2, 3, 2, 2, 1, 2, 2))
    agree(lambda x: x.permute(turned).triu(), x)


@pytest.mark.parametrize("accumulate", [False, True])
def test_placing_over_more_dimensions_than_a_launch_has(random, agree, index, accumulate):
    x, i, values = random((2, 3, 2, 3, 2, 3, 2)), index(3, 2, 2), random((3, 2, 2, 3, 2, 2, 2, 2))
    turned = (5, 1, 3, 6, 0, 4, 2)

    def put(x, i, v):
        return x.clone().permute(turned).index_put_((None, i), v, accumulate)

    def scatter(x, i):
        target, source = x.clone().permute(turned), x.permute(turned)
        return target.scatter_add_(0, i, source) if accumulate else target.scatter_(0, i, source)

    agree(put, x, i, values)
    agree(lambda x, i, v: put(x, i, v.transpose(0, 3)), x, i, values)
    agree(scatter, x, index(3, 3, 2, 2, 1, 2, 2, 2))


@pytest.mark.parametrize("dtype", [*MOVED, tt.int8], ids=name)
def test_rearranging(random, agree, dtype):
    x = random((3, 4, 5)).to(dtype)
    agree(lambda x: tt.cat([x, x[:, :1], x[:, :0], tt.empty(0, dtype=x.dtype, device=x.device)], 1), x)
    agree(lambda x: tt.stack([x, x.flip((1,))], 2), x)
    agree(lambda x: x.flip((0, -1)), x)
    for diagonal in (-9, -1, 0, 2, 9):
        agree(lambda x, d=diagonal: x.tril(d), x)
        agree(lambda x, d=diagonal: x.clone().transpose(0, 2).triu_(d), x)


def test_cat_promotes_and_keeps_channels_last(random, agree):
    agree(lambda a, b: tt.cat([a, b], 1), random((2, 3), tt.int32), random((2, 4), tt.float16))
    x = random((2, 3, 4, 5)).contiguous(memory_format=tt.channels_last)
    agree(lambda x: tt.cat([x, x], 1), x)
    out = tt.cat([x.to("cuda")] * 2, 1)
    assert out.stride() == tt.cat([x, x], 1).stride()


@pytest.mark.parametrize("dtype", [*DTYPES, tt.float8_e5m2], ids=name)
def test_masks(random, agree, dtype):
    x, mask = random((4, 5, 6)).to(dtype), random((4, 5, 6), tt.bool)
    agree(tt.nonzero, x)
    agree(lambda m: tt.nonzero(m[1, 1, 1]), mask)
    agree(lambda x, m: x[m], x, mask)
    agree(lambda x, m: x[:, m], x, mask[0, :, 0])
    agree(lambda x, m: x.masked_fill(m, 1.5), x[0], mask)
    agree(lambda x, m: x.clone().t().masked_fill_(m, 1), x[0], mask[0, 0, :5])
    agree(lambda x, m: x.masked_fill(m, x[0, 0, 0]), x, mask)
    agree(lambda x, m: x.clone().index_put_((m,), x[0, 0, 0]), x, mask)


def test_nonzero_over_many_programs(random, agree):
    agree(tt.nonzero, random((300, 200), tt.bool))
    agree(tt.nonzero, tt.zeros(40000))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_nothing(agree, shape):
    x, none = tt.zeros(shape), tt.zeros(0, dtype=tt.int64)
    agree(lambda x, i: x[i], x, none)
    agree(lambda x, i: x.index_put((i,), x[i], True), x, none)
    agree(lambda x, i: x.index_select(0, i), x, none)
    agree(lambda x: x.flip((0,)), x)
    agree(lambda x: tt.cat([x, x]), x)
    agree(tt.nonzero, x)
    agree(lambda x: x.masked_fill(x > 0, 1), x)


OUT_OF_BOUNDS = {
    "index": lambda x, i: x[i],
    "index of nothing": lambda x, i: x[:, :0][i],
    "two": lambda x, i: x[i * 0, i],
    "put": lambda x, i: x.index_put_((i,), x[0]),
    "accumulate": lambda x, i: x.index_put_((i * 0, i), x[0, 0], True),
    "select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter_(0, i[:, None], 1),
    "scatter_add": lambda x, i: x.scatter_add_(0, i[:, None], x),
    "index_add": lambda x, i: x.index_add_(0, i, x[:2]),
    "index_copy": lambda x, i: x.index_copy_(0, i, x[:2]),
    "take": lambda x, i: x.take(i * 100),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_dense_backward": lambda x, i: tt.ops.aten.embedding_dense_backward(x[:2], i, 4, -1, False),
    "renorm": lambda x, i: tt.embedding_renorm_(x, i, 1.0, 2.0),
}


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("wrong", [7, -8])
@pytest.mark.parametrize("case", OUT_OF_BOUNDS)
def test_indices_out_of_bounds(random, case, wrong):
    a, i = random((4, 5)), tt.tensor([1, wrong])
    with pytest.raises((IndexError, RuntimeError)) as expected:
        OUT_OF_BOUNDS[case](a, i)
    x = a.to("cuda")
    before = x.cpu().tolist()
    with pytest.raises(type(expected.value)) as got:
        OUT_OF_BOUNDS[case](x, i.to("cuda"))
    assert str(got.value) == str(expected.value)
    assert x.cpu().tolist() == before, "nothing is written where an index is wrong"


def gradient(function, inputs, device):
    leaves = [t.to(device).requires_grad_(t.dtype.is_floating_point) for t in inputs]
    out = function(*leaves)
    weight = tt.arange(float(out.numel()), device=device).view(out.shape).to(out.dtype)
    wanted = [t for t in leaves if t.requires_grad]
    first = tt.autograd.grad((out * out * weight).sum(), wanted, create_graph=True, materialize_grads=True)
    second = tt.autograd.grad(sum((g * g).sum() for g in first), wanted, materialize_grads=True)
    return [*first, *second]


GRADIENTS = {
    "cat": lambda x, y, i: tt.cat([x, y, x], 1),
    "index": lambda x, y, i: x[i],
    "index twice": lambda x, y, i: x[i, i - 1],
    "mask": lambda x, y, i: x[x > 0],
    "index_put": lambda x, y, i: x.index_put((i[:3],), y[:3]),
    "index_put accumulate": lambda x, y, i: x.index_put((i,), y[i - 1], True),
    "index_select": lambda x, y, i: x.index_select(1, i),
    "index_add": lambda x, y, i: x.index_add(0, i, y[i], alpha=2),
    "index_copy": lambda x, y, i: x.index_copy(0, i[:2], y[:2]),
    "gather": lambda x, y, i: x.gather(0, i[:, None].expand((6, 5))),
    "scatter": lambda x, y, i: x.scatter(1, i[:2].expand((2, 2)), y),
    "scatter_add": lambda x, y, i: x.scatter_add(0, i[:4, None].expand((4, 5)), y),
    "masked_fill": lambda x, y, i: x.masked_fill(y > 0, 2.0),
    "where": lambda x, y, i: tt.where(y > 0, x, y),
    "embedding": lambda x, y, i: F.embedding(i, x, padding_idx=1),
    "take": lambda x, y, i: x.take(i),
    "flip": lambda x, y, i: x.flip((0,)),
    "tril": lambda x, y, i: x.tril() + y.triu(1),
    "unfold": lambda x, y, i: x.unfold(1, 3, 1),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_of_both_orders_equal_the_host_s(random, same, case):
    inputs = [random((4, 5), tt.float64), random((4, 5), tt.float64), tt.tensor([0, 2, 3, 2, 1, 0])]
    expected = gradient(GRADIENTS[case], inputs, "cpu")
    for got, wanted in zip(gradient(GRADIENTS[case], inputs, "cuda"), expected, strict=True):
        same(got, wanted, 1e-12)


def test_a_tensor_is_not_placed_into_itself(random, rng):
    y = random((500,)).to("cuda")
    before = y.tolist()
    with pytest.raises(RuntimeError, match="single memory location"):
        y.index_copy_(0, tt.from_numpy(rng.permutation(500)).to("cuda"), y)
    assert y.tolist() == before


def test_results_into_given_tensors(random, same, index):
    a, i = random((4, 5)), index(4, 3)
    x, j = a.to("cuda"), i.to("cuda")
    out = tt.empty(5, 3, device="cuda").t()
    assert tt.index_select(x, 0, j, out=out) is out
    same(out, a[i])
    whole = tt.empty(8, 5, device="cuda")
    tt.cat([x, x], out=whole)
    same(whole, tt.cat([a, a]))
    tt.gather(x, 0, j[:, None], out=out)
    same(out, a.gather(0, i[:, None]))


def test_an_index_on_the_host(random, same):
    a = random((4, 5))
    same(a.to("cuda")[tt.tensor([3, 0])], a[tt.tensor([3, 0])])


def test_picking_by_one_index_is_one_launch(random, index):
    from triten.runtime.cuda.driver import driver

    x, i = random((4, 5)).to("cuda"), index(4, 3).to("cuda")
    x[i]
    before = driver().launches
    x[i]
    F.embedding(i, x)
    x.gather(0, i[:, None])
    assert driver().launches - before == 3
