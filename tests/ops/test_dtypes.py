"""Which dtypes an operator takes, and what becomes of numbers that a dtype does not hold: PyTorch's rules."""

import math

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.supported_dtypes import DTYPES, check_dtype, kernel_name

F = tt.nn.functional
DEVICES = ("cpu", "cuda")


def ones(dtype, device="cpu", shape=(4, 4)):
    return tt.ones(shape, dtype=getattr(tt, dtype), device=device)


def line(dtype, device):
    return ones(dtype, device, (1, 2, 4))


def places(device):
    return tt.zeros((1, 2, 4), dtype=tt.int64, device=device) + tt.arange(4, device=device)


COMPOSITIONS = {
    "glu": lambda t, d: F.glu(ones(t, d)),
    "huber_loss": lambda t, d: F.huber_loss(ones(t, d), ones(t, d)),
    "max_pool1d": lambda t, d: F.max_pool1d(line(t, d), 2),
    "max_unpool2d": lambda t, d: F.max_unpool1d(line(t, d), places(d), 1),
    "multi_margin_loss": lambda t, d: F.multi_margin_loss(ones(t, d), tt.zeros(4, dtype=tt.int64, device=d)),
    "multilabel_margin_loss": lambda t, d: F.multilabel_margin_loss(
        ones(t, d), tt.zeros((4, 4), dtype=tt.int64, device=d)
    ),
    "prelu": lambda t, d: F.prelu(ones(t, d), ones(t, d, (1,))),
    "rrelu": lambda t, d: F.rrelu(ones(t, d), training=True),
    "smooth_l1_loss": lambda t, d: F.smooth_l1_loss(ones(t, d), ones(t, d)),
    "threshold": lambda t, d: F.threshold(ones(t, d), 1, 0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ("bool", "int64", "complex64", "float16", "float32"))
@pytest.mark.parametrize("operator", COMPOSITIONS)
def test_an_operator_refuses_what_it_is_not_declared_for(operator, dtype, device):
    letter = {"bool": "b", "int64": "i", "complex64": "c", "float16": "n", "float32": "f"}[dtype]
    if letter in DTYPES[operator]:
        COMPOSITIONS[operator](dtype, device)
        return
    kernel, name = kernel_name(operator, device), getattr(tt, dtype).scalar_name
    with pytest.raises(NotImplementedError) as refusal:
        COMPOSITIONS[operator](dtype, device)
    assert str(refusal.value) == f"\"{kernel}\" not implemented for '{name}'"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(n for n, kinds in DTYPES.items() if kinds == "f"))
def test_special_functions_of_full_floats_refuse_narrow_ones(name, device):
    x = ones("bfloat16", device, (3,))
    public = getattr(tt.special, name.removeprefix("special_"))
    arguments = (x, x) if "polynomial" in name or name == "special_zeta" else (x,)
    with pytest.raises(NotImplementedError) as refusal:
        public(*arguments)
    assert str(refusal.value) == f"\"{kernel_name(name, device)}\" not implemented for 'BFloat16'"
    assert public(*[a.to(tt.int32) for a in arguments]).dtype is tt.float32


def test_refusals_name_kernels_as_pytorch_does():
    assert kernel_name("special_i1", "cpu") == "i1_cpu"
    assert kernel_name("normal_", "cpu") == "normal_kernel_cpu"
    assert kernel_name("huber_loss", "cuda") == "huber_loss_cuda"
    with pytest.raises(NotImplementedError, match="\"max_values_cpu\" not implemented for 'ComplexFloat'"):
        tt.amax(ones("complex64"))
    with pytest.raises(NotImplementedError, match="\"glu_cpu\" not implemented for 'Long'"):
        check_dtype("glu", tt.int64, tt.device("cpu"))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tt.zeros(3, dtype=tt.int64).exponential_(), RuntimeError, "but you specified Long"),
        (lambda: tt.zeros(3, dtype=tt.int64).cauchy_(), RuntimeError, "but you specified long int"),
        (lambda: F.dropout(ones("int64")), RuntimeError, "can't be cast to the desired output type Long"),
        (lambda: F.dropout(ones("complex64")), NotImplementedError, "bernoulli_scalar_cpu_"),
        (lambda: F.soft_margin_loss(ones("int8"), ones("int8")), RuntimeError, "desired output type Char"),
        (lambda: tt.gradient(ones("uint8")), RuntimeError, "does not support uint8"),
        (lambda: tt.mvlgamma(ones("bool"), 1), RuntimeError, "may not be a boolean tensor"),
        (
            lambda: tt.linalg.cross(ones("bool", shape=(3,)), ones("bool", shape=(3,))),
            NotImplementedError,
            "cross",
        ),
        (lambda: tt.std_mean(ones("int64")), RuntimeError, "std_mean only support"),
        (lambda: tt.clamp(ones("bool"), False, True), NotImplementedError, "clamp_scalar_cpu"),
        (lambda: tt.clamp_min(ones("complex64"), ones("complex64")), NotImplementedError, "maximum_cpu"),
        (lambda: tt.signbit(ones("complex64")), NotImplementedError, "not implemented for complex"),
    ],
)
def test_other_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("device", DEVICES)
def test_bools_are_not_clamped_nor_integers_sampled(device):
    x = ones("bool", device, (3,))
    for bounds, name in (
        ((False, True), "clamp_scalar"),
        ((x, x), "clamp"),
        ((False, None), "clamp_min_scalar"),
        ((None, True), "clamp_max_scalar"),
    ):
        with pytest.raises(NotImplementedError, match=f"\"{name}_{device}\" not implemented for 'Bool'"):
            tt.clamp(x, *bounds)
    image, grid = ones("int64", device, (1, 1, 3, 3)), ones("int64", device, (1, 2, 2, 2))
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.grid_sample(image, grid, align_corners=False)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", (tt.float16, tt.bfloat16))
def test_comparisons_and_remainders_see_numbers_rounded(dtype, device):
    x = tt.tensor([0.1, 0.2], device=device).to(dtype)
    for tenth in (0.1, tt.tensor(0.1, dtype=tt.float64)):
        assert (x == tenth).tolist() == [True, False]
        assert (x >= tenth).tolist() == [True, True]
        assert (x < tenth).tolist() == [False, False]
        assert tt.remainder(x, tenth)[0].item() == tt.fmod(x, tenth)[0].item() == 0
    # A quotient keeps the digits.
    third = tt.tensor([1.0], device=device).to(dtype) * 0.33333333
    assert third.item() == tt.tensor(0.33333333).to(dtype).item()


@pytest.mark.parametrize("dtype", (tt.uint8, tt.int8, tt.int16, tt.int32))
def test_bounds_and_scales_out_of_range_are_refused(dtype):
    x = tt.tensor([0, 1, 5], dtype=dtype)
    beyond = tt.iinfo(dtype).max + 1
    for call in (
        lambda: tt.clamp(x, beyond, 5),
        lambda: tt.clamp_min(x, beyond),
        lambda: x.clamp_max_(beyond),
        lambda: tt.add(x, x, alpha=beyond),
        lambda: x.sub_(x, alpha=beyond),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()
    assert x.tolist() == [0, 1, 5]
    assert tt.clamp(x, 1, 4).tolist() == [1, 1, 4]


def test_finite_parts_make_a_finite_number():
    x = tt.tensor([3e38 + 3e38j, complex(math.inf, math.nan), complex(1, math.nan), 0])
    assert tt.isfinite(x).tolist() == [True, False, False, True]
    assert tt.isinf(x).tolist() == [False, True, False, False]


@pytest.mark.parametrize("dtype", (tt.float32, tt.bfloat16))
def test_deviations_whose_squares_overflow(dtype):
    x = tt.tensor([[3e38, -3e38, 1.0], [1.0, 2.0, 3.0]]).to(dtype)
    wanted = np.std(x.double().numpy(), 1, ddof=1)
    np.testing.assert_allclose(tt.std(x, 1).double().numpy(), wanted, 1e-2 if dtype is tt.bfloat16 else 1e-6)
    assert tt.var(x, 1)[0].item() == math.inf
    assert tt.var(tt.tensor([1e308, -1e308, 0], dtype=tt.float64)).item() == math.inf
    assert math.isnan(tt.var(tt.tensor([math.inf, 1.0])).item())


def test_log_gamma_of_denormal_numbers():
    x = tt.tensor([5e-309, -5e-309, 0.0], dtype=tt.float64)
    np.testing.assert_allclose(tt.lgamma(x).tolist(), [-math.log(5e-309)] * 2 + [math.inf], 1e-15)


def test_numbers_stand_for_tensors_in_aliases_of_division():
    assert tt.true_divide(tt.tensor([1, 2]), 2).tolist() == [0.5, 1]
    assert tt.true_divide(1, tt.tensor([1.0, 2.0])).tolist() == [1, 0.5]
    assert (
        tt.special.xlogy(2.0, tt.tensor([1.0])).tolist()
        == tt.special.xlogy(tt.tensor([2.0]), 1).tolist()
        == [0]
    )


def test_sums_of_bytes_before_a_product_stay_bytes():
    a, b = tt.full((1, 2), 200, dtype=tt.uint8), tt.full((3, 2), 100, dtype=tt.uint8)
    found = tt.tensordot(a, b, ([0], [0]))
    assert found.dtype is tt.uint8
    assert found.tolist() == [[200 * 300 % 256] * 2] * 2
