"""Operators at unusual operands: extreme exponents, NaN, zeros, matrices without rank, batches of several shapes.

Expected numbers are PyTorch's.
"""

import math

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
INF, NAN = math.inf, math.nan


def test_layer_norm_over_all_of_a_square_matrix(device):
    x = tt.arange(4.0, device=device).reshape(2, 2)
    expected = [[-1.3416354656, -0.4472118318], [0.4472118318, 1.3416354656]]
    np.testing.assert_allclose(F.layer_norm(x, (2, 2)).cpu().numpy(), expected, rtol=1e-6)
    ones = tt.ones(2, 2, device=device)
    np.testing.assert_allclose(
        F.layer_norm(x, (2, 2), ones, ones).cpu().numpy(), np.add(expected, 1), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "expected"),
    [((2,), (1,), 0, [0, 1]), ((2,), (1,), 1, [1, 2]), ((2,), (1,), None, [2, 3]), ((2,), (1,), 2, [2, 3])],
)
def test_as_strided_counts_its_offset_from_the_storage(device, sizes, strides, offset, expected):
    x = tt.arange(4, device=device)[2:]
    assert x.as_strided(sizes, strides, offset).tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "values", "powers", "expected"),
    [
        (tt.float16, [1.0, 2.0], [1, 2], [2.0, 8.0]),
        (tt.float16, [1e-5, 6e4, 0.0], [20, -20, 50], [10.5, 0.057220458984375, 0.0]),
        (tt.bfloat16, [1.0, 2.0], [1, 2], [2.0, 8.0]),
        (tt.float32, [2.0**-133, 0.0, 1.0, -1.0], [200, 200, 128, 400], [2.0**67, 0.0, INF, -INF]),
        (tt.float32, [2.0**100, INF, 1.0, NAN], [-200, -150, -140, 3], [2.0**-100, INF, 2.0**-140, NAN]),
        # The one rounding of a number that becomes subnormal: in two steps it would be 2 * 2**-149.
        (tt.float32, [(1 + 2.0**-1 - 2.0**-23) * 2.0**-120], [-29], [2.0**-149]),
        (
            tt.float64,
            [5e-324, 2.0**1000, 0.0, -1.0],
            [2000, -2000, 2000, 1024],
            [2.0**926, 2.0**-1000, 0.0, -INF],
        ),
        (tt.float64, [(1 + 2.0**-1 - 2.0**-52) * 2.0**-1000], [-74], [2.0**-1074]),
        (tt.int64, [3, -5], [2, -1], [12.0, -2.5]),
    ],
)
def test_ldexp_rounds_once(device, dtype, values, powers, expected):
    made = tt.ldexp(tt.tensor(values, dtype=dtype, device=device), tt.tensor(powers, device=device))
    assert made.dtype is (tt.float32 if dtype is tt.int64 else dtype)
    np.testing.assert_array_equal(made.double().cpu().numpy(), expected)


def test_ldexp_has_the_power_as_its_slope(device):
    x = tt.tensor([1.0, 3.0], device=device, requires_grad=True)
    tt.ldexp(x, tt.tensor([3, -1], device=device)).sum().backward()
    assert x.grad.tolist() == [8.0, 0.5]


def test_frexp_names_its_results(device):
    x = tt.tensor([8.0, 0.75], device=device)
    made = tt.frexp(x)
    assert isinstance(made, tt.return_types.frexp)
    assert (made.mantissa.tolist(), made.exponent.tolist()) == ([0.5, 0.75], [4, 0])
    out = (tt.empty(2, device=device), tt.empty(2, dtype=tt.int32, device=device))
    assert tt.frexp(x, out=out).exponent is out[1]


@pytest.mark.parametrize("name", ["_softmax_backward_data", "_log_softmax_backward_data"])
def test_softmax_backward_has_the_dtype_of_its_gradient(device, name):
    grad = tt.tensor([[1.0, 2.0]], dtype=tt.float64, device=device)
    made = getattr(tt.ops.aten, name)(grad, tt.full_like(grad, 0.5), 1, tt.float32)
    assert made.dtype is tt.float64
    halves = tt.tensor([[1.0, 2.0]], device=device)
    assert getattr(tt.ops.aten, name)(halves, tt.full_like(halves, 0.5), 1, tt.float16).dtype is tt.float16


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16, tt.float64])
def test_float8_without_infinity_saturates(device, dtype):
    x = tt.tensor(
        [500.0, 448.0, 464.0, 480.0, 5e4, -500.0, INF, -INF, NAN, 240.0], dtype=dtype, device=device
    )
    made = x.to(tt.float8_e4m3fn).float().cpu().numpy()
    np.testing.assert_array_equal(made, [448, 448, 448, 448, 448, -448, 448, -448, NAN, 240])
    wide = tt.tensor([61440.0, 57344.0, -INF, NAN], dtype=dtype, device=device).to(tt.float8_e5m2).float()
    np.testing.assert_array_equal(wide.cpu().numpy(), [INF, 57344, -INF, NAN])


@pytest.mark.parametrize("driver", ["gelsy", "gelsd"])
def test_lstsq_finds_a_rank_for_each_of_its_own_matrices(driver):
    A, B = tt.eye(2).expand(3, 1, 2, 2) * 2, tt.ones(1, 4, 2, 1)
    made = tt.linalg.lstsq(A, B, driver=driver)
    assert (tuple(made.solution.shape), tuple(made.rank.shape)) == ((3, 4, 2, 1), (3, 1))
    assert made.rank.tolist() == [[2]] * 3 and bool((made.solution == 0.5).all())
    if driver == "gelsd":
        assert made.singular_values.tolist() == [[[2.0, 2.0]]] * 3


def test_lu_unpack_repeats_pivots_for_each_matrix(device):
    LU = tt.eye(2, device=device).expand(3, 2, 2)
    P, L, U = tt.lu_unpack(LU, tt.tensor([2, 2], dtype=tt.int32, device=device))
    assert [tuple(x.shape) for x in (P, L, U)] == [(3, 2, 2)] * 3
    assert P.tolist() == [[[0.0, 1.0], [1.0, 0.0]]] * 3


@pytest.mark.parametrize("sizes", [(1,), (3, 2), (3,)])
def test_lu_unpack_refuses_pivots_of_other_matrices(device, sizes):
    with pytest.raises(RuntimeError, match=r"lu_unpack: expected LU_pivots of sizes \[2\]"):
        tt.lu_unpack(tt.eye(2, device=device), tt.ones(sizes, dtype=tt.int32, device=device))


@pytest.mark.parametrize(
    ("p", "target", "expected"), [(1, 0, 0.0), (1, 1, 0.6666666865), (2, 1, 1.3333333731)]
)
def test_multi_margin_loss_has_no_gap_from_nan(device, p, target, expected):
    x = tt.tensor([[NAN, 1.0, 2.0]], device=device)
    made = F.multi_margin_loss(x, tt.tensor([target], device=device), p=p)
    assert made.item() == pytest.approx(expected, rel=1e-6)


def test_multilabel_margin_loss_has_no_gap_from_nan(device):
    x = tt.tensor([[NAN, 1.0, 2.0]], device=device)
    made = F.multilabel_margin_loss(x, tt.tensor([[1, -1, 0]], device=device))
    assert made.item() == pytest.approx(0.6666666865, rel=1e-6)


def test_hinge_embedding_loss_of_integers_is_an_integer(device):
    x, y = tt.tensor([1, 2], device=device), tt.tensor([1, -1], device=device)
    made = F.hinge_embedding_loss(x, y, margin=2.5, reduction="none")
    assert (made.dtype, made.tolist()) == (tt.int64, [1, 0])
    with pytest.raises(RuntimeError, match="mean"):
        F.hinge_embedding_loss(x, y)


@pytest.mark.parametrize("p", [1, -1, INF, -INF, "fro"])
def test_cond_of_singular_matrices_is_infinite(device, p):
    for x in (tt.zeros(2, 2, device=device), tt.tensor([[1.0, 2.0], [2.0, 4.0]], device=device)):
        assert tt.linalg.cond(x, p).item() == INF


@pytest.mark.parametrize("dtype", [tt.int8, tt.int32, tt.int64])
def test_integers_have_no_negative_powers(device, dtype):
    x = tt.tensor([1, 2], dtype=dtype, device=device)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-1
    assert (x**3).tolist() == [1, 8]


@pytest.mark.parametrize(
    ("dtype", "low", "high", "message"),
    [
        (tt.float32, 0, INF, "to is out of bounds for float"),
        (tt.float32, -INF, 0, "from is out of bounds for float"),
        (tt.float32, 0, NAN, "to is out of bounds"),
        (tt.float16, 0, 1e5, "to is out of bounds for c10::Half"),
        (tt.float32, -3e38, 3e38, "to-from to exceed the limit"),
        (tt.float32, 1, 0, r"\[from, to\) range"),
    ],
)
def test_uniform_refuses_bounds_that_its_dtype_does_not_hold(device, dtype, low, high, message):
    x = tt.ones(2, dtype=dtype, device=device)
    with pytest.raises(RuntimeError, match=message):
        x.uniform_(low, high)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("weights", [{"fweights": [0, 0]}, {"aweights": [0.0, 0.0]}])
def test_cov_refuses_weights_without_a_sum(device, weights):
    x = tt.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    with pytest.raises(RuntimeError, match="weights sum to zero"):
        tt.cov(x, **{name: tt.tensor(value, device=device) for name, value in weights.items()})


@pytest.mark.parametrize("dtype", [tt.complex64, tt.complex128])
def test_reciprocal_of_complex_zero_is_infinite(device, dtype):
    x = tt.tensor([0j, complex(INF, 0), 1e30 + 1e30j], dtype=dtype, device=device)
    for made in (x.reciprocal(), x**-1):
        parts = tt.view_as_real(made).cpu().numpy()
        assert parts[0, 0] == INF and np.isnan(parts[0, 1])
        np.testing.assert_allclose(parts[1:], [[0, 0], [5e-31, -5e-31]], rtol=1e-6)
    assert tt.view_as_real(x[:1].rsqrt()).tolist()[0][0] == INF


def test_log10_is_exact_at_powers_of_ten(device):
    x = tt.tensor([10.0**n for n in range(-10, 11)] + [0.0, -1.0], device=device)
    np.testing.assert_array_equal(tt.log10(x).cpu().numpy(), [*range(-10, 11), -INF, NAN])


def test_copies_of_several_views_are_tuples(device):
    x = tt.arange(4.0, device=device)
    for made in (tt.unbind_copy(x), tt.split_copy(x, 1), tt.split_with_sizes_copy(x, [1, 3])):
        assert type(made) is tuple


def test_view_copy_reads_bytes_as_another_dtype(device):
    x = tt.tensor([1.0, -0.0], device=device)
    for made in (tt.view_copy(x, tt.int32), tt.view_copy(x, dtype=tt.int32)):
        assert (made.dtype, made.tolist()) == (tt.int32, [0x3F800000, -(2**31)])
    assert tt.view_copy(x, (2, 1)).tolist() == [[1.0], [-0.0]]


@pytest.mark.parametrize(
    ("offset", "sizes", "strides"),
    [(0, (2,), (-1,)), (3, (2,), (-1,)), (2**62, (2,), (1,)), (0, (2,), (2**62,))],
)
def test_set_refuses_geometry_beyond_memory(device, offset, sizes, strides):
    x, source = tt.ones(4, device=device), tt.ones(4, device=device)
    for other in (source, source.untyped_storage()):
        with pytest.raises(RuntimeError, match="set_: Storage size calculation overflowed"):
            x.set_(other, offset, sizes, strides)
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize("positions", [2, 3000])
def test_batch_norm_of_a_constant_without_eps_is_zero(device, positions):
    x = tt.ones(2, 2, positions, device=device)
    x[:, 1, 0] = 3
    made, _, saved = tt.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)
    assert made[:, 0].abs().max().item() == 0 and bool(made[:, 1].isfinite().all())
    assert saved[0].item() == 0 and saved[1].item() > 0
    assert F.instance_norm(x[:, :1], eps=0).abs().max().item() == 0
    assert bool(F.group_norm(x, 2, eps=0)[:, 0].isnan().all())


def test_unique_along_a_dimension_lies_in_rows_of_it(device):
    x = tt.tensor([[1, 2, 1], [1, 2, 1]], device=device)
    made = tt.unique(x, dim=1)
    assert (made.tolist(), made.stride()) == ([[1, 2], [1, 2]], (1, 2))
    assert tt.unique(x.expand(2, 2, 3), dim=2).stride() == (2, 1, 4)
    assert tt.unique_consecutive(x, dim=0).stride() == (3, 1)


def test_one_hot_of_a_transposed_tensor_is_contiguous(device):
    made = F.one_hot(tt.tensor([[0, 1, 2], [1, 0, 2]], device=device).t())
    assert made.is_contiguous() and made[1].tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (tt.int8, 300),
        (tt.uint8, 256),
        (tt.int32, 2**40),
        (tt.float16, 1e6),
        (tt.float32, 1e300),
        (tt.int8, NAN),
    ],
)
@pytest.mark.parametrize(
    "fill",
    [
        lambda x, number: x.fill_(number),
        lambda x, number: tt.full((2,), number, dtype=x.dtype, device=x.device),
        lambda x, number: x.masked_fill(x == 0, number),
        lambda x, number: x.masked_fill_(x == 0, number),
        lambda x, number: (
            x.clamp(min=number) if x.dtype.is_floating_point or number == number else x.fill_(number)
        ),
        lambda x, number: x.index_fill(0, tt.tensor([0], device=x.device), number),
        lambda x, number: x.scatter(0, tt.tensor([0], device=x.device), number),
    ],
    ids=["fill_", "full", "masked_fill", "masked_fill_", "clamp", "index_fill", "scatter"],
)
def test_numbers_that_a_dtype_does_not_hold_are_refused(device, dtype, number, fill):
    x = tt.zeros(2, dtype=dtype, device=device)
    with pytest.raises(RuntimeError, match="without overflow"):
        fill(x, number)
    assert x.tolist() == [0, 0]


def test_numbers_that_fit_or_wrap_are_taken(device):
    assert tt.zeros(2, dtype=tt.uint8, device=device).fill_(-1).tolist() == [255, 255]
    assert tt.zeros(2, dtype=tt.float16, device=device).fill_(INF).tolist() == [INF, INF]
    filled = tt.zeros(2, dtype=tt.int8, device=device).masked_fill(
        tt.tensor([True, False], device=device), 127
    )
    assert filled.tolist() == [127, 0]
