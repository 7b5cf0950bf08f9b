"""The reduction skeleton over layouts, dtypes, tilings and rows of its table."""

import itertools

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.meta.dims import reduced_shape
from triten.dispatch.structured.stub import StructuredCall, find_kernel
from triten.runtime.tensor_spec import TensorSpec

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
TOLERANCE = {tt.float16: 1e-3, tt.bfloat16: 8e-3, tt.float32: 2e-6, tt.float64: 1e-14}


def reduced(stub, x, dims, dtypes, keepdim=False):
    """Run a row of the table on a device tensor; the outputs as ndarrays."""
    sizes = reduced_shape(x.shape, dims, keepdim)
    specs = tuple(TensorSpec.contiguous(sizes, dtype, x.device) for dtype in dtypes)
    call = StructuredCall(stub[:-5], {"self": x._spec}, ("self",), specs, None, x.device, {"dims": dims})
    outs = [tt.empty(sizes, dtype=dtype, device=x.device) for dtype in dtypes]
    find_kernel(stub, "cuda", stub)(call).into(*(out._data for out in outs), x._data)
    return [out.cpu().numpy() for out in outs]


SHAPES = [
    (),
    (0,),
    (3, 0),
    (0, 3),
    (1,),
    (7,),
    (3, 5),
    (4, 5, 6),
    (3, 1, 5),
    (2, 3, 4, 5),
    (3, 9000),
    (9000, 3),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum_over_every_choice_of_dimensions(random, same, launches, shape, dtype):
    a = random(shape, dtype)
    x = a.to("cuda")
    wide = a.numpy().astype(np.float64)
    tolerance = TOLERANCE[dtype] * 8
    for count in range(1, len(shape) + 1):
        for dims in itertools.combinations(range(len(shape)), count):
            for keepdim in (False, True):
                before = launches.count
                got = x.sum(dims, keepdim)
                assert launches.count - before == (1 if got.numel() else 0)
                expected = np.asarray(wide.sum(axis=dims, keepdims=keepdim)).astype(dtype.np)
                same(got, tt.from_numpy(expected), tolerance * max(1, a.numel() ** 0.5 / 8))
    same(
        x.sum(),
        tt.from_numpy(np.asarray(wide.sum()).astype(dtype.np)),
        tolerance * max(1, a.numel() ** 0.5 / 8),
    )


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int8, tt.int32, tt.int64, tt.bool], ids=lambda d: d.name)
def test_integers_sum_in_int64(random, same, dtype):
    a = random((13, 70), dtype)
    same(a.to("cuda").sum(0), a.sum(0))
    same(a.to("cuda").sum(), a.sum())


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], ids=str)
def test_permuted_inputs(random, same, order, dims):
    a = random((6, 7, 8), tt.float64)
    got = a.to("cuda").permute(order).sum(dims)
    same(got, tt.from_numpy(a.permute(order).numpy().sum(axis=dims)), 1e-13)


def test_more_dimensions_than_the_skeleton_has(random, same):
    a = random((2, 3) * 5, tt.float64)
    x = a.to("cuda")
    order = (9, 1, 8, 2, 7, 3, 6, 4, 5, 0)
    same(x.sum((0, 2, 4, 6, 8)), tt.from_numpy(a.numpy().sum((0, 2, 4, 6, 8))), 1e-12)
    same(
        x.permute(order).sum((1, 3, 5, 7, 9), True),
        tt.from_numpy(a.permute(order).numpy().sum((1, 3, 5, 7, 9), keepdims=True)),
        1e-12,
    )


def test_out_of_any_strides(random, same):
    a = random((4, 5, 6), tt.float64)
    out = tt.empty(6, 4, dtype=tt.float64, device="cuda").t()
    assert tt.sum(a.to("cuda"), 1, out=out) is out
    same(out, tt.from_numpy(a.numpy().sum(1)), 1e-13)


def test_large_sums_are_one_launch_and_reproducible(random, launches):
    a = random((200_000,))
    x = a.to("cuda")
    before = launches.count
    first = x.sum()
    assert launches.count - before == 1
    assert first.item() == x.sum().item()
    assert abs(first.item() - a.numpy().astype(np.float64).sum()) < 1e-3


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize(
    ("stub", "reference"),
    [("amax_stub", np.max), ("amin_stub", np.min), ("mean_stub", np.mean), ("prod_stub", np.prod)],
)
def test_rows_of_the_table(random, stub, reference, dims):
    a = random((5, 300), tt.float64)
    got = reduced(stub, a.to("cuda"), dims, [tt.float64])[0]
    np.testing.assert_allclose(got, reference(a.numpy(), axis=dims), rtol=1e-12)


@pytest.mark.parametrize("dtype", [tt.int8, tt.uint8, tt.int64, tt.bool, tt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize(("stub", "reference"), [("amax_stub", np.max), ("amin_stub", np.min)])
def test_extremes_of_every_dtype(random, stub, reference, dtype):
    a = random((5, 30), dtype)
    got = reduced(stub, a.to("cuda"), (1,), [dtype])[0]
    np.testing.assert_array_equal(got, reference(a.numpy(), axis=1))


@pytest.mark.parametrize(("stub", "reference"), [("any_stub", np.any), ("all_stub", np.all)])
@pytest.mark.parametrize("dtype", [tt.bool, tt.float32, tt.int64], ids=lambda d: d.name)
def test_truth(stub, reference, dtype):
    a = tt.from_numpy(np.array([[0, 0, 0], [0, 1, 0], [2, 1, 3]], dtype.np))
    got = reduced(stub, a.to("cuda"), (1,), [tt.bool])[0]
    np.testing.assert_array_equal(got, reference(a.numpy(), axis=1))


def test_nan_wins_every_extreme():
    x = tt.from_numpy(np.array([[1, np.nan, 3], [np.nan, 2, np.nan], [3, 2, 1]], np.float32)).to("cuda")
    for stub, last in (("amax_stub", 3), ("amin_stub", 1)):
        np.testing.assert_array_equal(reduced(stub, x, (1,), [tt.float32])[0], [np.nan, np.nan, last])
    assert reduced("argmax_stub", x, (1,), [tt.int64])[0].tolist() == [1, 0, 0]
    assert reduced("argmin_stub", x, (1,), [tt.int64])[0].tolist() == [1, 0, 2]


@pytest.mark.parametrize("dims", [(0,), (1,), (2,)], ids=str)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
def test_extremes_with_their_indices(random, dims, order):
    a = random((6, 70, 5), tt.int8).permute(order)
    x = a.to("cuda")
    for stub, value, index in (("max_dim_stub", np.max, np.argmax), ("min_dim_stub", np.min, np.argmin)):
        values, indices = reduced(stub, x, dims, [tt.int8, tt.int64])
        np.testing.assert_array_equal(values, value(a.numpy(), axis=dims[0]))
        np.testing.assert_array_equal(indices, index(a.numpy(), axis=dims[0]))


def test_the_index_over_all_dimensions_is_logical(random):
    a = random((6, 7, 5)).permute((2, 0, 1))
    got = reduced("argmax_stub", a.to("cuda").permute((0, 1, 2)), (0, 1, 2), [tt.int64])[0]
    assert got == np.argmax(a.numpy())


def test_infinities_alone_have_an_index():
    x = tt.from_numpy(np.full((2, 3), -np.inf, np.float32)).to("cuda")
    assert reduced("argmax_stub", x, (1,), [tt.int64])[0].tolist() == [0, 0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_sums_and_products_of_truth_values(device):
    """Convert elements to bool before the sum or product, as PyTorch does, however small they are."""
    x = tt.tensor([[0.25, 0.5, 0.0], [0.0, 0.0, 0.0], [0.5, 0.25, -0.1]], device=device)
    assert x.sum(1, dtype=tt.bool).tolist() == [True, False, True]
    assert x.prod(1, dtype=tt.bool).tolist() == [False, False, True]
    assert tt.tensor([256, 0], device=device).sum(dtype=tt.bool).item()
    assert x.sum(dtype=tt.int64).item() == 0
    for scan in (tt.cumsum, tt.cumprod):
        with pytest.raises(NotImplementedError, match=f"{scan.__name__}.*'Bool'"):
            scan(x, 0, dtype=tt.bool)


def test_parts_of_several_outputs(random, same, launches):
    a = random((3, 40_000), tt.int64)
    for x, dim in ((a, 1), (a.t(), 0)):
        before = launches.count
        got = x.to("cuda").sum(dim)
        assert launches.count - before == 1
        same(got, x.sum(dim))
