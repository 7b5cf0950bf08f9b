"""complex32: two halves of a number in four bytes, moved like any other, computed in complex64 and rounded.

The numbers are PyTorch 2.13's.
"""

import io
import pickle

import ml_dtypes
import numpy as np
import pytest

import triten as tt

INF = float("inf")


def numbers(device, *values, dtype=tt.complex32):
    return tt.tensor(list(values), dtype=dtype, device=device)


def a(device):
    return numbers(device, 3.3 + 1j, -0.25, 1e-3j, 60000 + 2j)


def b(device):
    return numbers(device, 1.7 + 0.3j, 2 - 4j, 0.1, 3)


def mask(device, *values):
    return tt.tensor(list(values), device=device)


TENTH, THOUSANDTH = 0.0999755859375, 0.0010004043579101562
"""The halves next to 0.1 and 0.001."""

COMPUTED = {
    "add": (
        lambda d: a(d) + b(d),
        [5 + 1.2998046875j, 1.75 - 4j, TENTH + THOUSANDTH * 1j, 60000 + 2j],
    ),
    "sub": (
        lambda d: a(d) - b(d),
        [1.6005859375 + 0.7001953125j, -2.25 + 4j, -TENTH + THOUSANDTH * 1j, 60000 + 2j],
    ),
    "mul": (
        lambda d: a(d) * b(d),
        [5.3125 + 2.69140625j, -0.5 + 1j, 0.00010001659393310547j, complex(INF, 6)],
    ),
    "mul by a number": (
        lambda d: a(d) * 0.1,
        [0.330078125 + TENTH * 1j, -0.024993896484375, 0.00010001659393310547j, 6000 + 0.199951171875j],
    ),
    "mul by a complex number": (
        lambda d: a(d)[:2] * (0.3 + 0.7j),
        [0.290283203125 + 2.611328125j, -0.07501220703125 - 0.175048828125j],
    ),
    "rsub": (
        lambda d: 1.1 - a(d),
        [-2.201171875 - 1j, 1.349609375, 1.099609375 - THOUSANDTH * 1j, -60000 - 2j],
    ),
    "add with alpha": (
        lambda d: tt.add(a(d), b(d), alpha=2),
        [6.703125 + 1.599609375j, 3.75 - 8j, 0.199951171875 + THOUSANDTH * 1j, 60000 + 2j],
    ),
    "addcmul": (
        lambda d: tt.addcmul(a(d), b(d), b(d), value=2)[1:],
        [-24.25 - 32j, 0.019989013671875 + THOUSANDTH * 1j, 60032 + 2j],
    ),
    "abs": (lambda d: a(d).abs(), [3.44921875, 0.25, THOUSANDTH, 60000.0]),
    "sgn": (
        lambda d: a(d).sgn(),
        [0.95703125 + 0.2900390625j, -1, 1j, 1 + 3.331899642944336e-05j],
    ),
    "neg": (lambda d: -a(d), [-3.30078125 - 1j, 0.25, -THOUSANDTH * 1j, -60000 - 2j]),
    "conj": (lambda d: a(d).conj(), [3.30078125 - 1j, -0.25, -THOUSANDTH * 1j, 60000 - 2j]),
    "eq": (lambda d: a(d) == 3.3 + 1j, [True, False, False, False]),
    "ne": (lambda d: a(d) != b(d), [True] * 4),
    "isfinite": (lambda d: tt.isfinite(a(d) * b(d)), [True, True, True, False]),
    "norm": (lambda d: b(d).norm(), 5.65625),
    "norm of ones": (lambda d: b(d).norm(1), 9.296875),
    "norm of the largest": (lambda d: b(d).norm(INF), 4.47265625),
    "var": (lambda d: b(d).var(), 5.66796875),
    "std": (lambda d: b(d).std(), 2.380859375),
    "sum in complex64": (lambda d: b(d).sum(dtype=tt.complex64), 6.8001708984375 - 3.699951171875j),
    "any": (lambda d: numbers(d, 0, 1j).any(), True),
    "all": (lambda d: numbers(d, 0, 1j).all(), False),
    "count_nonzero": (lambda d: numbers(d, 0, 1j, 2).count_nonzero(), 2),
    "nonzero": (lambda d: tt.nonzero(numbers(d, 0, 1j, 0, 2)), [[1], [3]]),
    "cat": (
        lambda d: tt.cat([a(d)[:1], b(d)[2:].real]),
        [3.30078125 + 1j, TENTH, 3],
    ),
    "where": (
        lambda d: tt.where(mask(d, True, False, False, True), a(d), 0.1j),
        [3.30078125 + 1j, TENTH * 1j, TENTH * 1j, 60000 + 2j],
    ),
    "masked_fill": (
        lambda d: a(d).masked_fill(mask(d, True, False, False, True), 0.1j),
        [TENTH * 1j, -0.25, THOUSANDTH * 1j, TENTH * 1j],
    ),
    "index_put": (
        lambda d: numbers(d, 0, 0).index_put((mask(d, 0, 0, 1, 0),), b(d), accumulate=True),
        [6.69921875 - 3.69921875j, TENTH],
    ),
    "index_add": (
        lambda d: numbers(d, 0, 0).index_add(0, mask(d, 0, 0, 1, 0), b(d)),
        [6.69921875 - 3.69921875j, TENTH],
    ),
    "index_select": (lambda d: a(d).index_select(0, mask(d, 3, 0)), [60000 + 2j, 3.30078125 + 1j]),
    "indexed by a mask": (lambda d: b(d)[mask(d, False, True, False, True)], [2 - 4j, 3]),
    "tril": (
        lambda d: tt.tril(b(d).reshape(2, 2)),
        [[1.7001953125 + 0.300048828125j, 0j], [TENTH, 3]],
    ),
    "pad": (
        lambda d: tt.nn.functional.pad(b(d)[1:], (1, 0), value=2),
        [2, 2 - 4j, TENTH, 3],
    ),
    "embedding": (
        lambda d: tt.nn.functional.embedding(mask(d, 1, 0), b(d).reshape(2, 2)),
        [[TENTH, 3], [1.7001953125 + 0.300048828125j, 2 - 4j]],
    ),
    "flattened over other strides": (
        lambda d: b(d).reshape(2, 2).t().flatten(),
        [1.7001953125 + 0.300048828125j, TENTH, 2 - 4j, 3],
    ),
}
REAL = {
    "abs": tt.float16,
    **dict.fromkeys(("norm", "norm of ones", "norm of the largest", "var", "std"), tt.float16),
    **dict.fromkeys(("eq", "ne", "isfinite", "any", "all"), tt.bool),
    **dict.fromkeys(("count_nonzero", "nonzero"), tt.int64),
    "sum in complex64": tt.complex64,
}


@pytest.mark.parametrize("name", COMPUTED)
def test_results_are_pytorchs(name, device):
    call, expected = COMPUTED[name]
    made = call(device)
    assert made.dtype is REAL.get(name, tt.complex32)
    assert made.tolist() == expected


@pytest.mark.parametrize("name", ["addcmul", "convolution"])
def test_a_chain_inside_an_operator_is_rounded_once(name, device):
    """PyTorch rounds each step of these: 8.90625, and 1.1953125."""
    if name == "addcmul":
        made = tt.addcmul(a(device)[:1], b(device)[:1], b(device)[:1], value=2)
        exact = 3.30078125 + 1j + 2 * (1.7001953125 + 0.300048828125j) ** 2
    else:
        x = numbers(device, 1 + 2j, 3.3).reshape(1, 1, 2)
        made = tt.nn.functional.conv1d(x, numbers(device, 0.1 + 1j, 2).reshape(1, 1, 2)).flatten()
        exact = (1 + 2j) * (TENTH + 1j) + 3.30078125 * 2
    wanted = np.array([exact], np.complex64).view(np.float32).astype(np.float16)
    assert made.dtype is tt.complex32
    assert tt.view_as_real(made).flatten().tolist() == wanted.tolist()


PROMOTED = [
    (lambda d: numbers(d, 0.1, 2.0, dtype=tt.float16) * (1 + 1j), tt.complex32),
    (lambda d: numbers(d, 0.1, dtype=tt.float16) * tt.tensor(1j, device=d), tt.complex32),
    (lambda d: numbers(d, 0.1, dtype=tt.float16) * numbers(d, 1j, dtype=tt.complex64), tt.complex64),
    (lambda d: numbers(d, 1j) * numbers(d, 1, dtype=tt.int64), tt.complex32),
    (lambda d: numbers(d, 1j) * numbers(d, 1, dtype=tt.float32), tt.complex64),
    (lambda d: numbers(d, 1j) / numbers(d, 2, dtype=tt.float32), tt.complex64),
    (lambda d: numbers(d, 1j).logical_and(numbers(d, 2, dtype=tt.float32)), tt.bool),
    (lambda d: numbers(d, 1j) * numbers(d, 1, dtype=tt.bfloat16), tt.complex64),
    (lambda d: numbers(d, 1j) * numbers(d, 1, dtype=tt.complex128), tt.complex128),
    (lambda d: tt.where(mask(d, True), numbers(d, 1, dtype=tt.float16), 1j), tt.complex32),
    (lambda d: tt.cat([numbers(d, 1j), numbers(d, 1, dtype=tt.float32)]), tt.complex64),
]


@pytest.mark.parametrize("case", range(len(PROMOTED)))
def test_other_dtypes_beside_it(case, device):
    call, dtype = PROMOTED[case]
    assert call(device).dtype is dtype


def test_half_times_an_imaginary_number(device):
    made = numbers(device, 0.1, 2.0, dtype=tt.float16) * (1 + 1j)
    assert made.tolist() == [TENTH + TENTH * 1j, 2 + 2j]


def test_an_element_in_host_memory_is_rounded_first(device):
    x = numbers(device, 3.3 + 1j)
    assert (x * tt.tensor(0.1)).tolist() == [0.330078125 + TENTH * 1j]
    assert (x * tt.tensor(0.3 + 0.7j)).tolist() == [0.290283203125 + 2.611328125j]
    assert (x == tt.tensor(3.3 + 1j)).tolist() == [True]
    assert tt.where(mask(device, False), x, tt.tensor(1j, device=device)).tolist() == [1j]


CONVERTED = {
    "int8": [1, 0, 0],
    "int64": [1, 0, 0],
    "float16": [1.7001953125, 0.0, 0.0],
    "bfloat16": [1.703125, 0.0, 0.0],
    "float8_e4m3fn": [1.75, 0.0, 0.0],
    "float32": [1.7001953125, 0.0, 0.0],
    "float64": [1.7001953125, 0.0, 0.0],
    "bool": [True, True, False],
    "complex64": [1.7001953125 + 1j, 1j, 0j],
    "complex128": [1.7001953125 + 1j, 1j, 0j],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CONVERTED)
def test_conversions_from_it(name, device):
    made = numbers(device, 1.7 + 1j, 1j, 0).to(getattr(tt, name))
    assert made.dtype is getattr(tt, name) and made.device.type == device
    assert made.tolist() == CONVERTED[name]


@pytest.mark.parametrize("dtype", [tt.complex64, tt.complex128])
def test_a_complex_number_is_true_by_its_imaginary_part_too(dtype, device):
    assert numbers(device, 0, 1j, -1, complex(0, float("nan")), dtype=dtype).bool().tolist() == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("bfloat16", [1.7], [1.703125]),
        ("float8_e4m3fn", [1.7], [1.75]),
        ("float32", [1e-8, 6e-8, 70000.0], [0, 5.960464477539063e-08, INF]),
        ("float64", [1e300], [INF]),
        ("uint16", [1, 2, 3], [1, 2, 3]),
        ("int64", [70000, 2049], [INF, 2048]),
        ("bool", [True, False], [1, 0]),
        ("complex64", [70000 + 2j], [complex(INF, 2)]),
        ("complex128", [0.1 + 0.1j], [TENTH + TENTH * 1j]),
    ],
)
def test_conversions_to_it(name, values, expected, device):
    made = numbers(device, *values, dtype=getattr(tt, name)).chalf()
    assert made.dtype is tt.complex32
    assert made.tolist() == expected


def test_chalf_of_what_is_of_the_dtype_is_the_tensor_itself(device):
    x = numbers(device, 1j)
    assert x.chalf() is x
    assert x.chalf(memory_format=tt.contiguous_format) is x
    assert tt.ones(2, 2, device=device).t().chalf().stride() == (1, 2)


def test_parts_and_views_share_memory(device):
    x = numbers(device, 1 + 2j, 3.5)
    assert tt.view_as_real(x).tolist() == [[1.0, 2.0], [3.5, 0.0]]
    assert (x.real.dtype, x.imag.tolist()) == (tt.float16, [2.0, 0.0])
    assert x[:1].view(tt.int32).tolist() == [1073757184]
    assert x.view(tt.float16).tolist() == [1.0, 2.0, 3.5, 0.0]
    x.real.add_(1)
    x.imag[1] = -1
    assert x.tolist() == [2 + 2j, 4.5 - 1j]
    pairs = tt.ones(2, 2, dtype=tt.float16, device=device)
    made = tt.view_as_complex(pairs)
    made.mul_(2j)
    assert pairs.tolist() == [[-2.0, 2.0]] * 2
    assert tt.ones(2, dtype=tt.float16, device=device).view(tt.chalf).tolist() == [1 + 1j]


def test_numbers_of_two_halves(device):
    half = numbers(device, 0.1, 2, dtype=tt.float16)
    made = tt.complex(half, -half)
    assert made.dtype is tt.complex32
    assert made.tolist() == [TENTH - TENTH * 1j, 2 - 2j]
    with pytest.raises(NotImplementedError, match=r"polar_c.+ not implemented for 'Half'"):
        tt.polar(half, half)
    with pytest.raises(RuntimeError, match="Half, Float or Double tensors but got BFloat16"):
        tt.complex(half.bfloat16(), half.bfloat16())


def test_factories(device):
    like = tt.empty(2, dtype=tt.chalf, device=device)
    options = {"dtype": tt.chalf, "device": device}
    assert (
        tt.zeros(2, **options).tolist() == tt.zeros_like(like).tolist() == like.zero_().tolist() == [0j, 0j]
    )
    assert tt.ones(2, **options).tolist() == like.new_ones(2).tolist() == [1, 1]
    assert tt.full((2,), 0.1j, **options).tolist() == like.fill_(0.1j).tolist() == [TENTH * 1j] * 2
    assert tt.scalar_tensor(1j, **options).item() == 1j
    assert tt.empty(0, **options).tolist() == tt.zeros(0, **options).abs().tolist() == []


@pytest.mark.parametrize("draw", [tt.randn, tt.rand])
def test_random_numbers_have_both_parts(draw, device):
    tt.manual_seed(0)
    x = draw(2000, dtype=tt.chalf, device=device)
    parts = tt.view_as_real(x).double()
    assert x.dtype is tt.complex32
    wanted = 0.0 if draw is tt.randn else 0.5
    assert ((parts.mean(0) - wanted).abs() < 0.06).all()
    assert (parts.std(0) > 0.2).all()
    if draw is tt.randn:
        assert abs(float(x.var()) - 1) < 0.1


def test_it_is_printed_in_full():
    assert repr(numbers("cpu", 1 + 2j, 3.5)) == "tensor([1.0000+2.j, 3.5000+0.j], dtype=triten.complex32)"
    assert numbers("cpu", 1j).type() == "triten.ComplexHalfTensor"
    assert tt.ones(1).type("triten.ComplexHalfTensor").dtype is tt.complex32


def test_arrays_of_it_are_ml_dtypes_own():
    array = np.array([1 + 2j, 3], ml_dtypes.complex32)
    x = tt.from_numpy(array)
    assert x.dtype is tt.complex32
    x[0] = 5j
    assert array[0] == 5j
    assert x.numpy().dtype == ml_dtypes.complex32
    assert np.shares_memory(x.numpy(), array)


def test_it_is_saved_as_pytorch_saves_it():
    x = numbers("cpu", 1 + 2j, 3.5)
    file = io.BytesIO()
    tt.save({"x": x, "dtype": tt.complex32}, file)
    assert b"torch" in file.getvalue() and b"complex32" in file.getvalue()
    file.seek(0)
    found = tt.load(file)
    assert found["dtype"] is tt.complex32
    assert (found["x"].dtype, found["x"].tolist()) == (tt.complex32, x.tolist())
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_outputs_and_in_place_forms(device):
    x = numbers(device, 1 + 1j, 2)
    wide = numbers(device, 0.5, 1j, dtype=tt.complex64)
    assert x.add_(wide).tolist() == [1.5 + 1j, 2 + 1j]
    assert x.mul_(0.1j).dtype is tt.complex32
    out = tt.zeros(2, dtype=tt.chalf, device=device)
    tt.exp(tt.zeros(2, dtype=tt.complex64, device=device), out=out)
    assert out.tolist() == [1, 1]
    tt.mul(wide, 2, out=out)
    assert out.tolist() == [1, 2j]
    out.copy_(numbers(device, 1, 2, dtype=tt.int32))
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x * x.conj()).real.sum(), [6 + 8j, 2j]),
        (lambda x: x.abs().sum(), [0.60009765625 + 0.7998046875j, 1j]),
        (lambda x: tt.view_as_real(x * (2 - 1j)).sum(), [1 + 3j, 1 + 3j]),
        (lambda x: x.cfloat().abs().sum(), [0.60009765625 + 0.7998046875j, 1j]),
    ],
)
def test_gradients(function, expected, device):
    x = numbers(device, 3 + 4j, 1j).requires_grad_()
    function(x).backward()
    assert x.grad.dtype is tt.complex32
    assert x.grad.tolist() == expected


def test_gradients_of_a_convolution(device):
    x = numbers(device, 1 + 2j, 3.3, 0.5j).reshape(1, 1, 3).requires_grad_()
    weight = numbers(device, 0.1 + 1j, 2).reshape(1, 1, 2).requires_grad_()
    bias = numbers(device, 1j).requires_grad_()
    tt.nn.functional.conv1d(x, weight, bias).real.sum().backward()
    assert x.grad.flatten().tolist() == [TENTH - 1j, 2.099609375 - 1j, 2]
    assert weight.grad.flatten().tolist() == [4.30078125 - 2j, 3.30078125 - 0.5j]
    assert bias.grad.tolist() == [2]


OUT_OF_RANGE = {
    "fill_": lambda x: x[:1].fill_(1e5),
    "masked_fill": lambda x: x.masked_fill(x == 1, 1e5),
    "where": lambda x: tt.where(x == 1, x, 1e5),
    "addcmul": lambda x: tt.addcmul(x, x, x, value=1e5),
    "add": lambda x: tt.add(x, x, alpha=1e5),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_number_out_of_range(name, device):
    x = numbers(device, 1, 2j)
    with pytest.raises(RuntimeError, match="value cannot be converted to type c10::complex<c10::Half>"):
        OUT_OF_RANGE[name](x)
    assert x.tolist() == [1, 2j]


REFUSED = {
    "acos_vml_cpu": tt.acos,
    "acosh_cpu": tt.acosh,
    "addcdiv_cpu_out": lambda x: tt.addcdiv(x, x, x),
    "addmm_impl_cpu_": lambda x: x @ x,
    "addmv_impl_cpu": lambda x: x @ x[0],
    "angle_cpu": tt.angle,
    "baddbmm": lambda x: tt.baddbmm(x[None], x[None], x[None]),
    "bmm": lambda x: tt.bmm(x[None], x[None]),
    "cholesky_cpu": tt.linalg.cholesky,
    "cumprod_out_cpu": lambda x: x.cumprod(0),
    "cumsum_out_cpu": lambda x: x.cumsum(0),
    "div_cpu": lambda x: x / 2,
    "dot": lambda x: tt.dot(x[0], x[0]),
    "exp2": tt.exp2,
    "exp_vml_cpu": tt.exp,
    "flip_cpu": lambda x: x.flip(0),
    "lerp_kernel_scalar": lambda x: tt.lerp(x, x, 0.5),
    "linspace_cpu": lambda x: tt.linspace(0, 1, 3, dtype=x.dtype),
    "logical_not_cpu": tt.logical_not,
    "lu_cpu": tt.linalg.det,
    "pow": lambda x: x**2,
    "prod_out_cpu": tt.prod,
    "reciprocal_cpu": tt.reciprocal,
    "reflection_pad1d": lambda x: tt.nn.functional.pad(x, (1, 1), mode="reflect"),
    "scatter_gather_tensor_cpu": lambda x: x.gather(0, tt.zeros(1, 2, dtype=tt.int64)),
    "sigmoid_cpu": tt.sigmoid,
    "softmax_lastdim_kernel_impl": lambda x: x.softmax(-1),
    "sqrt_vml_cpu": tt.sqrt,
    "sum_cpu": tt.mean,
    "take_cpu": lambda x: x.take(tt.tensor([0])),
    "tanh_vml_cpu": tt.tanh,
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_cpu_refuses_what_pytorchs_does(name):
    x = numbers("cpu", 1, 2, 3, 4j).reshape(2, 2)
    with pytest.raises(NotImplementedError) as refusal:
        REFUSED[name](x)
    assert str(refusal.value) == f"\"{name}\" not implemented for 'ComplexHalf'"


def test_the_exponential_of_a_matrix_is_refused(device):
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
        tt.matrix_exp(tt.ones(2, 2, dtype=tt.chalf, device=device))


@pytest.mark.parametrize("made_before", [tt.complex64, tt.float16])
def test_a_refusal_stands_beside_plans_of_other_dtypes(made_before, device):
    refused = tt.expm1
    refused(tt.ones(3, dtype=made_before, device=device))
    for size in (0, 3, 5):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
            refused(tt.ones(size, dtype=tt.chalf, device=device))


UNARY_ON_CUDA = (
    *(
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "cosh",
        "exp",
        "log",
        "rsqrt",
        "sigmoid",
        "sin",
    ),
    *("sinh", "sqrt", "tan", "tanh", "angle", "sum", "prod", "trace"),
)


@pytest.mark.parametrize("name", UNARY_ON_CUDA)
def test_functions_that_pytorchs_cuda_has(name):
    x = numbers("cuda", 0.5 + 1j, -0.25, 1e-3j, 2 - 2j).reshape(2, 2)
    made, wide = getattr(tt, name)(x), getattr(tt, name)(x.cfloat())
    assert made.dtype is (tt.float16 if name == "angle" else tt.complex32)
    tt.testing.assert_close(made.to(wide.dtype), wide, rtol=6e-4, atol=6e-8)


@pytest.mark.parametrize(
    "function",
    [tt.div, tt.pow, tt.logaddexp, lambda x, y: tt.lerp(x, y, 0.25), lambda x, y: tt.lerp(x, y, x)],
    ids=["div", "pow", "logaddexp", "lerp by a number", "lerp"],
)
def test_functions_of_two_that_pytorchs_cuda_has(function):
    x, y = numbers("cuda", 0.5 + 1j, -0.25, 2 - 2j), numbers("cuda", 1 + 1j, 2j, 0.3)
    made, wide = function(x, y), function(x.cfloat(), y.cfloat())
    assert made.dtype is tt.complex32
    tt.testing.assert_close(made.cfloat(), wide, rtol=6e-4, atol=1e-6)


def test_sums_on_cuda_are_added_in_a_wide_dtype():
    assert tt.full((4096,), 0.5 + 1j, dtype=tt.chalf, device="cuda").sum().item() == 2048 + 4096j


def test_meta_tensors_know_the_dtypes():
    x = tt.empty(2, 3, dtype=tt.chalf, device="meta")
    assert (x.abs().dtype, (x + 1).dtype, x.cfloat().dtype, x.real.dtype) == (
        tt.float16,
        tt.complex32,
        tt.complex64,
        tt.float16,
    )
