"""scatter_reduce and masked_scatter agree with the host: every reduction, with and without the initial
values.
"""

import numpy as np
import pytest

import triten as tt

DTYPES = [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int8, tt.uint8, tt.int64, tt.bool]
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


@pytest.fixture
def agree(same):
    def check(function, *tensors):
        same(function(*[t.to("cuda") for t in tensors]), function(*tensors))

    return check


@pytest.mark.parametrize("includes", [True, False], ids=["with self", "without"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_reduction(random, rng, agree, dtype, reduce, includes):
    if dtype is tt.bool and reduce == "mean":
        with pytest.raises(NotImplementedError, match=r"reduce_mean.* not implemented for 'Bool'"):
            random((2,), dtype).to("cuda").scatter_reduce(
                0, tt.zeros(1, dtype=tt.int64, device="cuda"), random((1,), dtype).to("cuda"), reduce
            )
        return
    x, source = random((4, 5, 6), dtype), random((4, 9, 6), dtype)
    index = tt.from_numpy(rng.integers(0, 5, (3, 8, 4)))
    agree(lambda x, i, s: x.scatter_reduce(1, i, s, reduce, include_self=includes), x, index, source)


def test_nan_and_infinities_are_kept(agree):
    x = tt.tensor([1.0, float("nan"), 2.0, float("-inf"), 5.0])
    source = tt.tensor([float("nan"), 3.0, float("inf"), -0.0, 7.0])
    index = tt.tensor([0, 1, 2, 2, 3])
    for reduce in REDUCTIONS:
        for includes in (True, False):
            agree(
                lambda x, i, s, r=reduce, n=includes: x.scatter_reduce(0, i, s, r, include_self=n),
                x,
                index,
                source,
            )


def test_means_of_integers_are_rounded_down(agree):
    x, source = tt.tensor([7, -8, 5]), tt.tensor([-2, 3, -2])
    index = tt.tensor([0, 1, 1])
    assert x.scatter_reduce(0, index, source, "mean").tolist() == [2, -3, 5]
    agree(lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), x, index, source)


@pytest.mark.usefixtures("launch_blocking")
def test_what_is_refused():
    x, index = tt.zeros(3, 4, device="cuda"), tt.zeros(1, 4, dtype=tt.int64, device="cuda")
    with pytest.raises(
        RuntimeError, match="reduce argument must be either sum, prod, mean, amax or amin, got add"
    ):
        x.scatter_reduce(0, index, x, "add")
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 0 with size 3"):
        x.scatter_reduce(0, index + 9, x, "sum")
    assert not x.any().item()
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        x.masked_scatter_(x == 0, tt.ones(3, device="cuda"))
    with pytest.raises(RuntimeError, match="masked_scatter_ only supports boolean masks"):
        x.masked_scatter(x, x)
    assert not x.any().item()


@pytest.mark.parametrize("dtype", [tt.float32, tt.int8, tt.bool], ids=lambda d: d.name)
def test_masked_scatter(random, agree, dtype):
    x, source = random((4, 5), dtype), random((20,), dtype)
    mask = random((5,), tt.bool)
    agree(lambda x, m, s: x.masked_scatter(m, s), x, mask, source)
    agree(lambda x, m, s: x.t().clone().masked_scatter_(m, s), x, random((4,), tt.bool), source)
    agree(lambda x, m, s: x.masked_scatter(m, s), x[0, 0], tt.tensor(True), source)


def test_gradients(rng):
    index = tt.from_numpy(rng.integers(0, 4, (3, 5)))
    for reduce in REDUCTIONS:
        found = []
        base, values = rng.standard_normal((4, 5)), rng.standard_normal((3, 5))
        for device in ("cuda", "cpu"):
            x, s = (tt.from_numpy(a).to(device).requires_grad_() for a in (base, values))
            (x.scatter_reduce(0, index.to(device), s, reduce) ** 2).sum().backward()
            found.append(np.concatenate([x.grad.cpu().numpy(), s.grad.cpu().numpy()]))
        np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(
    "dtype", [tt.int8, tt.float16, tt.float32, tt.float64, tt.complex128], ids=lambda d: d.name
)
def test_rows_by_index(rng, dtype, launches):
    """Move runs of contiguous elements at once, in whole vectors or not."""
    for width in (16, 17, 48, 64):
        values = (rng.standard_normal((7, width)) * 9).astype(np.float32).astype(dtype.np)
        index = rng.integers(0, 7, 11)
        x, i = tt.from_numpy(values).to("cuda"), tt.from_numpy(index).to("cuda")
        for got in (x[i], x.index_select(0, i), tt.nn.functional.embedding(i, x)):
            np.testing.assert_array_equal(got.cpu().numpy(), values[index])
        np.testing.assert_array_equal(x[:, 1:][i - 7].cpu().numpy(), values[:, 1:][index])
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 7"):
        x[tt.tensor([0, 7], device="cuda")]
