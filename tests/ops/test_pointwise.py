"""Pointwise operators on the CPU and on meta: values, dtypes, edges, in-place and out= forms, errors."""

import itertools
import math
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import triten as tt

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
TOLERANCE = {"float32": 2e-6, "float64": 1e-12, "float16": 1e-3, "bfloat16": 8e-3}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 100.0, -100.0, math.inf, -math.inf, math.nan]

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal_cdf(x):
    return 0.5 * (1 + erf(x / math.sqrt(2)))


UNARY = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": erf,
    "erfc": erfc,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "neg": np.negative,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sign": lambda x: np.where(np.isnan(x), 0, np.sign(x)),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
ACTIVATIONS = {
    "gelu": lambda x: x * normal_cdf(x),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}
BINARY = {
    "add": np.add,
    "atan2": np.arctan2,
    "div": np.divide,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "pow": np.power,
    "remainder": np.remainder,
    "sub": np.subtract,
}
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
BITWISE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}


def dtype_of(name):
    return getattr(tt, "bool" if name == "bool_" else name)


def array_of(values, dtype):
    return np.asarray(values).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def tensor_of(values, dtype):
    return tt.from_numpy(array_of(values, dtype))


def wide(tensor):
    return np.asarray(tensor.detach().numpy()).astype(np.float64)


def assert_close(tensor, expected, dtype, name):
    with np.errstate(all="ignore"):
        expected = array_of(np.asarray(expected, np.float64), dtype).astype(np.float64)
    np.testing.assert_allclose(
        wide(tensor), expected, rtol=TOLERANCE[dtype], atol=1e-7, equal_nan=True, err_msg=f"{name} {dtype}"
    )
    assert str(tensor.dtype) == f"triten.{dtype}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, *ACTIVATIONS])
def test_unary_values_and_edges(name, dtype):
    reference = (UNARY | ACTIVATIONS)[name]
    values = np.concatenate(
        [np.linspace(-3, 3, 37), [v for v in EDGES if not (name == "gelu" and math.isinf(v))]]
    )
    x = array_of(values, dtype)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
    result = getattr(tt, name)(tt.from_numpy(x))
    assert_close(result, expected, dtype, name)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_forms(name):
    values = np.linspace(0.1, 0.9, 12).reshape(3, 4)
    function = getattr(tt, name)
    expected = wide(function(tensor_of(values, "float32")))
    out = tt.empty(3, 4)
    assert function(tensor_of(values, "float32"), out=out) is out
    np.testing.assert_array_equal(wide(out), expected)
    inplace = tensor_of(values, "float32")
    version = inplace._version_cell[0] if inplace._version_cell else 0
    assert getattr(inplace, name + "_")() is inplace
    np.testing.assert_array_equal(wide(inplace), expected)
    assert inplace._version_cell[0] > version
    assert tuple(function(tt.empty(3, 4, device="meta")).shape) == (3, 4)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "sqrt", "erf", "reciprocal", "tanh", "log"])
def test_integers_become_the_default_float(name):
    result = getattr(tt, name)(tt.tensor([1, 2, 3]))
    assert result.dtype is tt.float32
    np.testing.assert_allclose(wide(result), UNARY[name](np.array([1.0, 2.0, 3.0])), rtol=2e-6)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        getattr(tt.tensor([1, 2, 3]), name + "_")()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["abs", "neg", "sign", "floor", "ceil", "round", "trunc", "relu", "square"])
def test_integers_stay(name, dtype):
    x = array_of([0, 1, 2, 5] if dtype == "uint8" else [0, 1, -2, 5], dtype)
    result = getattr(tt, name)(tt.from_numpy(x))
    np.testing.assert_array_equal(result.numpy(), UNARY[name](x).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_values_and_edges(name, dtype):
    values = np.array([v for v in EDGES if not (name == "remainder" and math.isinf(v))])
    a, b = array_of(values[:, None], dtype), array_of(values, dtype)
    with np.errstate(all="ignore"):
        expected = BINARY[name](a.astype(np.float64), b.astype(np.float64))
    assert_close(getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b)), expected, dtype, name)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "remainder", "fmod", "pow"])
def test_binary_integers_wrap(name, dtype):
    low = 0 if dtype == "uint8" else -7
    a, b = array_of([[low], [3], [100], [120]], dtype), array_of([1, 2, 5, 7], dtype)
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b)
    np.testing.assert_array_equal(getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b)).numpy(), expected)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("floor", [3, -4, -4, 3]), ("trunc", [3, -3, -3, 3]), (None, [3.5, -3.5, -3.5, 3.5])],
)
@pytest.mark.parametrize("dtype", ["int32", "int8", "float32", "float64", "float16"])
def test_division_by_rounding_mode(mode, expected, dtype):
    a, b = tensor_of([7, 7, -7, -7], dtype), tensor_of([2, -2, 2, -2], dtype)
    result = tt.div(a, b, rounding_mode=mode)
    np.testing.assert_array_equal(wide(result), expected)
    integral = dtype.startswith("int")
    assert str(result.dtype) == ("triten.float32" if integral and mode is None else f"triten.{dtype}")
    if mode == "floor":
        np.testing.assert_array_equal(wide(a // b), expected)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero(name):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(tt, name)(tt.tensor([1, 2]), tt.tensor([1, 0]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(tt, name)(tt.tensor([1, 2]), 0)


def test_remainder_keeps_signs():
    a = tt.tensor([-4.0, 4.0, -3.0, 3.0])
    np.testing.assert_array_equal(wide(a % 2.0), [0, 0, 1, 1])
    np.testing.assert_array_equal(wide(a % -2.0), [0, 0, -1, -1])
    np.testing.assert_array_equal(wide(tt.fmod(a, 2.0)), [0, 0, -1, 1])


def test_number_operands():
    x = tt.tensor([1.0, 2.0, 4.0])
    for result, expected in [
        (x + 1, [2, 3, 5]),
        (1 + x, [2, 3, 5]),
        (x - 1.5, [-0.5, 0.5, 2.5]),
        (1 - x, [0, -1, -3]),
        (x * True, [1, 2, 4]),
        (x / 2, [0.5, 1, 2]),
        (8 / x, [8, 4, 2]),
        (x**2, [1, 4, 16]),
        (2**x, [2, 4, 16]),
        (x // 2, [0, 1, 2]),
        (9 // x, [9, 4, 2]),
        (x % 3, [1, 2, 1]),
        (5 % x, [0, 1, 1]),
        (-x, [-1, -2, -4]),
        (+x, [1, 2, 4]),
        (abs(-x), [1, 2, 4]),
    ]:
        assert result.dtype is tt.float32
        np.testing.assert_array_equal(wide(result), expected)


def test_negative_zero_as_a_number():
    x = tt.tensor([0.0, -0.0])
    for _ in range(2):
        assert np.signbit(wide(x * 0.0)).tolist() == [False, True]
        assert np.signbit(wide(x * -0.0)).tolist() == [True, False]


def test_number_promotion():
    assert (tt.tensor([1]) + 1.5).dtype is tt.float32
    assert (tt.tensor([1]) * 2).dtype is tt.int64
    assert (tt.tensor([True]) + 1).dtype is tt.int64
    assert (tt.tensor([1], dtype=tt.int8) + 300).tolist() == [45]
    assert (tensor_of([1], "float16") * 2.0).dtype is tt.float16
    assert (tt.tensor([1.0]) + 1j).dtype is tt.complex64
    assert (tt.tensor([1, 2]) == 1.0).tolist() == [True, False]


def test_integer_operators_of_python():
    a, b = tt.tensor([6, 5]), tt.tensor([3, 1])
    assert (a & b).tolist() == [2, 1]
    assert (a | b).tolist() == [7, 5]
    assert (a ^ b).tolist() == [5, 4]
    assert (~a).tolist() == [-7, -6]
    assert (a << 1).tolist() == [12, 10]
    assert (a >> 1).tolist() == [3, 2]
    assert (1 | b).tolist() == [3, 1]
    assert (1 << b).tolist() == [8, 2]
    assert (~tt.tensor([True, False])).tolist() == [False, True]


@pytest.mark.parametrize(
    "statement", ["x += 1", "x -= 1", "x *= 3", "x /= 2", "x //= 2", "x %= 2", "x **= 2"]
)
def test_augmented_assignment_keeps_the_tensor(statement):
    x = tt.tensor([1.0, 2.0, 5.0])
    reference = np.array([1.0, 2.0, 5.0])
    names, numbers = {"x": x}, {"x": reference}
    exec(statement, names)
    exec(statement, numbers)
    assert names["x"] is x
    np.testing.assert_array_equal(wide(x), numbers["x"])


class Foreign:
    def __radd__(self, other):
        return "radd"

    def __rtruediv__(self, other):
        return "rtruediv"

    def __rpow__(self, other):
        return "rpow"

    def __pow__(self, other):
        return NotImplemented


def test_foreign_operands():
    x = tt.ones(2)
    assert x + Foreign() == "radd"
    assert x / Foreign() == "rtruediv"
    assert x ** Foreign() == "rpow"
    with pytest.raises(TypeError):
        Foreign() ** x
    with pytest.raises(TypeError):
        x + "a"
    assert (x == "a") is False
    assert (x != "a") is True


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8"])
@pytest.mark.parametrize("name", sorted(COMPARISONS))
def test_comparisons(name, dtype):
    a, b = array_of([[0], [1], [2]], dtype), array_of([0, 1, 2], dtype)
    result = getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b))
    assert result.dtype is tt.bool
    np.testing.assert_array_equal(result.numpy(), COMPARISONS[name](a.astype(int), b.astype(int)))
    out = tt.empty(3, 3)
    assert getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b), out=out) is out
    np.testing.assert_array_equal(out.numpy(), result.numpy().astype(np.float32))
    assert getattr(tt, name)(tt.from_numpy(a).to("meta"), 1).dtype is tt.bool


def test_comparisons_with_nan():
    x = tt.tensor([math.nan, 1.0, math.inf, -math.inf, 0.0])
    assert (x == x).tolist() == [False, True, True, True, True]
    assert tt.isnan(x).tolist() == [True, False, False, False, False]
    assert tt.isinf(x).tolist() == [False, False, True, True, False]
    assert tt.isfinite(x).tolist() == [False, True, False, False, True]
    for function in (tt.isnan, tt.isinf):
        assert function(tt.tensor([1, 2])).tolist() == [False, False]
    assert tt.isfinite(tt.tensor([1, 2])).tolist() == [True, True]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "bool"])
@pytest.mark.parametrize("name", sorted(LOGIC))
def test_logic(name, dtype):
    a, b = array_of([[0], [2]], dtype), array_of([0, 1], dtype)
    expected = LOGIC[name](a.astype(bool), b.astype(bool))
    result = getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b))
    assert result.dtype is tt.bool
    np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(tt.logical_not(tt.from_numpy(b)).numpy(), ~b.astype(bool))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("name", sorted(BITWISE))
def test_bitwise(name, dtype):
    a, b = array_of([[1], [0], [6]], dtype), array_of([3, 1], dtype)
    np.testing.assert_array_equal(
        getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b)).numpy(), BITWISE[name](a, b)
    )
    with pytest.raises(NotImplementedError, match=f"\"{name}_cpu\" not implemented for 'Float'"):
        getattr(tt, name)(tt.ones(2), tt.ones(2))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
def test_clamp(dtype):
    x = tensor_of([-2, 0, 1, 5], dtype)
    assert wide(tt.clamp(x, 0, 3)).tolist() == [0, 0, 1, 3]
    assert wide(tt.clamp(x, min=0)).tolist() == [0, 0, 1, 5]
    assert wide(tt.clamp(x, max=1)).tolist() == [-2, 0, 1, 1]
    assert wide(tt.clamp(x, 3, 1)).tolist() == [1, 1, 1, 1]
    low, high = tensor_of([0, 1, 2, 3], dtype), tensor_of([1, 1, 3, 4], dtype)
    assert wide(tt.clamp(x, low, high)).tolist() == [0, 1, 2, 4]
    assert wide(x.clamp_min(low)).tolist() == [0, 1, 2, 5]
    assert wide(x.clamp_max(1)).tolist() == [-2, 0, 1, 1]
    assert wide(x.clamp_(0, 3)).tolist() == [0, 0, 1, 3]


def test_clamp_nan_and_errors():
    x = tt.tensor([math.nan, -1.0, 1.0])
    assert math.isnan(wide(x.clamp(0, 1))[0])
    assert np.isnan(wide(x.clamp(min=math.nan))).all()
    assert tt.clamp(tt.tensor([1, 2]), 1.5).dtype is tt.float32
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        x.clamp()


def test_where():
    condition = tt.tensor([[True], [False]])
    a, b = tt.tensor([1, 2, 3]), tt.tensor([-1.0, -2.0, -3.0])
    result = tt.where(condition, a, b)
    assert result.dtype is tt.float32
    assert result.tolist() == [[1, 2, 3], [-1, -2, -3]]
    assert tt.where(condition, a, 0).tolist() == [[1, 2, 3], [0, 0, 0]]
    assert tt.where(condition, 0, a).tolist() == [[0, 0, 0], [1, 2, 3]]
    assert tt.where(condition, 1.0, 0.0).tolist() == [[1], [0]]
    assert tt.where(condition, tensor_of([1], "float16"), 2.0).dtype is tt.float16
    assert a.where(condition, 9).tolist() == [[1, 2, 3], [9, 9, 9]]
    with pytest.raises(RuntimeError, match="condition to be a boolean tensor"):
        tt.where(tt.ones(2), tt.ones(2), tt.ones(2))


def test_maximum_propagates_nan_and_fmax_ignores_it():
    a, b = tt.tensor([math.nan, 1.0, math.nan]), tt.tensor([1.0, math.nan, math.nan])
    assert np.isnan(wide(tt.maximum(a, b))).all()
    assert np.isnan(wide(tt.fmin(a, b))).tolist() == [False, False, True]


def test_pow():
    x = tt.tensor([4.0, 9.0])
    for exponent in (0, 0.5, 1, 2, 3, -0.5, -1, -2, 1.7):
        np.testing.assert_allclose(wide(x**exponent), np.array([4.0, 9.0]) ** exponent, rtol=2e-6)
    assert (tt.tensor([2, 1, -1, 0]) ** tt.tensor([-1, -2, -3, 0])).tolist() == [0, 1, -1, 1]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        tt.tensor([2]) ** -1
    assert (tt.tensor([2]) ** 0.5).dtype is tt.float32


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("beta", "threshold"), [(1, 20), (1, 0.1), (2.0, 20), (2, 1), (1.0, 20.0)])
def test_softplus_by_any_of_its_numbers(device, beta, threshold):
    values = np.array([-1.0, 0.05, 0.5, 3.0])
    x = tt.tensor(values.tolist(), device=device)
    expected = np.where(values * beta > threshold, values, np.log1p(np.exp(values * beta)) / beta)
    defaults = {"beta": (beta, 1), "threshold": (threshold, 20)}
    given = {name: value for name, (value, default) in defaults.items() if value is not default}
    for result in (tt.softplus(x, beta, threshold), tt.softplus(x, **given)):
        np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-6)


def test_scales():
    a, b, c = tt.tensor([1.0, 2.0]), tt.tensor([3.0, 4.0]), tt.tensor([2.0, 5.0])
    assert tt.add(a, b, alpha=2).tolist() == [7, 10]
    assert tt.sub(a, b, alpha=0.5).tolist() == [-0.5, 0]
    assert tt.rsub(a, b, alpha=2).tolist() == [1, 0]
    assert tt.addcmul(a, b, c, value=2).tolist() == [13, 42]
    np.testing.assert_allclose(wide(tt.addcdiv(a, b, c)), [2.5, 2.8], rtol=1e-6)
    assert tt.lerp(a, b, 0.5).tolist() == [2, 3]
    assert tt.lerp(a, b, tt.tensor([0.0, 1.0])).tolist() == [1, 4]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        tt.add(tt.tensor([1]), tt.tensor([1]), alpha=0.5)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        tt.add(a, b, alpha=True)


def test_refusals():
    mask = tt.tensor([True, False])
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors"):
        mask - mask
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor"):
        mask - tt.ones(2)
    with pytest.raises(RuntimeError, match="Negation, the `-` operator, on a bool tensor"):
        tt.neg(mask)
    with pytest.raises(RuntimeError, match="Boolean inputs not supported for relu"):
        tt.relu(mask)
    with pytest.raises(
        RuntimeError, match="size of tensor a \\(2\\) must match the size of tensor b \\(3\\)"
    ):
        tt.ones(2) + tt.ones(3)
    with pytest.raises(RuntimeError, match="div expected rounding_mode to be one of"):
        tt.div(tt.ones(2), tt.ones(2), rounding_mode="up")
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        tt.gelu(tt.ones(2), approximate="erf")
    with pytest.raises(NotImplementedError, match="'ComplexFloat'"):
        tt.lt(tt.tensor([1j]), tt.tensor([1j]))
    with pytest.raises(RuntimeError, match="not implemented for complex tensors"):
        tt.maximum(tt.tensor([1j]), tt.tensor([1j]))
    with pytest.raises(RuntimeError, match=r"output with shape .* doesn't match the broadcast shape"):
        tt.ones(1).add_(tt.ones(3))


def layouts():
    base = np.arange(1.0, 49.0, dtype=np.float32).reshape(2, 3, 4, 2) / 7
    yield "contiguous", tt.from_numpy(base)
    yield "transposed", tt.from_numpy(base).transpose(1, 3)
    yield (
        "channels_last",
        tt.from_numpy(np.ascontiguousarray(base.transpose(0, 2, 3, 1))).permute([0, 3, 1, 2]),
    )
    yield "strided", tt.from_numpy(base)[:, ::2]
    yield "expanded", tt.from_numpy(base[:, :1]).expand((2, 3, 4, 2))
    yield "0-d", tt.tensor(1.5)
    yield "empty", tt.empty(0, 3)


@pytest.mark.parametrize("layout", [name for name, _ in layouts()])
@pytest.mark.parametrize("name", ["exp", "relu", "sigmoid", "neg", "rsqrt", "gelu"])
def test_layouts(name, layout):
    x = dict(layouts())[layout]
    reference = (UNARY | ACTIVATIONS)[name]
    result = getattr(tt, name)(x)
    assert tuple(result.shape) == tuple(x.shape)
    if x._spec.numel:
        np.testing.assert_allclose(wide(result), reference(wide(x)), rtol=2e-6)
    both = x + x
    np.testing.assert_array_equal(wide(both), 2 * wide(x))
    np.testing.assert_array_equal(wide(tt.where(x > 1, x, 0)), np.where(wide(x) > 1, wide(x), 0))
    if layout in ("transposed", "channels_last"):
        assert result.stride() == x.stride()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["sigmoid", "gelu", "mul", "add"])
def test_blocks(name, dtype):
    """More elements than a block, and no multiple of it."""
    values = np.linspace(-4, 4, 100_003)
    x = array_of(values, dtype)
    if name in BINARY:
        expected, result = BINARY[name](x.astype(float), 0.5), getattr(tt, name)(tt.from_numpy(x), 0.5)
    else:
        expected, result = (UNARY | ACTIVATIONS)[name](x.astype(float)), getattr(tt, name)(tt.from_numpy(x))
    np.testing.assert_allclose(wide(result), expected, rtol=TOLERANCE[dtype], atol=1e-6)


@pytest.mark.parametrize("name", ["add_", "mul_", "sub_", "div_", "exp_", "relu_", "neg_", "clamp_"])
def test_inplace_allocates_nothing_large(name):
    x, y = tt.ones(512, 512), tt.ones(512, 512)
    arguments = {"clamp_": (0.0,)}.get(name, (y,) if name in ("add_", "mul_", "sub_", "div_") else ())
    getattr(x, name)(*arguments)
    tracemalloc.start()
    getattr(x, name)(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024


def test_errors_of_arithmetic_stay_silent():
    with np.errstate(all="raise"):
        x = tt.tensor([0.0, 1e38, -1.0])
        assert wide(x / 0).tolist()[1] == math.inf
        assert math.isinf(wide(x * 1e38)[1])
        assert math.isnan(wide(tt.sqrt(x))[2])
        assert math.isinf(wide(tt.exp(x))[1])
        assert math.isnan(wide(tt.log(x))[2])
        assert math.isinf(wide(tensor_of([60000.0], "float16") * 2)[0])


def test_what_is_made_of_transposed_parts_lies_as_they_do(device):
    x = tt.arange(6.0, device=device).reshape(2, 3)
    made = tt.complex(x.mT, (x + 1).mT)
    assert made.stride() == (1, 3)
    assert made.tolist() == [[complex(a, a + 1) for a in row] for row in x.mT.tolist()]
    assert tt.complex(x.mT, x.reshape(3, 2)).stride() == (1, 3)
    assert tt.complex(x[0, 0], x.mT).stride() == (1, 3)
    assert tt.complex(x.reshape(3, 2), x.mT).is_contiguous()
    filled = x.mT.index_fill(0, tt.tensor([1], device=device), -1.0)
    assert filled.stride() == (1, 3) and filled.tolist() == [[0.0, 3.0], [-1.0, -1.0], [2.0, 5.0]]
    put = x.mT.put(tt.tensor([1, 2], device=device), tt.tensor([7.0, 8.0], device=device))
    assert put.stride() == (1, 3) and put.tolist() == [[0.0, 7.0], [8.0, 4.0], [2.0, 5.0]]


def test_what_pytorch_makes_contiguous_of_transposed_operands(device):
    x = tt.arange(6.0, device=device).reshape(1, 2, 3).mT
    assert x.rot90(4).is_contiguous() and x.rot90(4).tolist() == x.tolist()
    y = x.permute(1, 0, 2).mT
    assert y.repeat_interleave(2, 1).is_contiguous()
    assert y.repeat_interleave(2, 1).tolist() == [[row for row in rows for _ in "ab"] for rows in y.tolist()]
    scaled = tt.renorm(x, 2, 1, 5.0)
    assert scaled.is_contiguous()
    np.testing.assert_allclose(
        tt.linalg.vector_norm(scaled, 2, (0, 2)).tolist(), [3.0, math.sqrt(17), 5.0], rtol=1e-6
    )
    padded = tt.nn.functional.pad(x, (1, 0), mode="circular")
    assert padded.is_contiguous() and padded[0].tolist() == [
        [3.0, 0.0, 3.0],
        [4.0, 1.0, 4.0],
        [5.0, 2.0, 5.0],
    ]


def test_complex():
    z = tt.tensor([3 + 4j, -1j])
    assert tt.abs(z).tolist() == [5, 1]
    assert tt.abs(z).dtype is tt.float32
    assert (z * z).tolist() == [-7 + 24j, -1]
    assert z.conj().tolist() == [3 - 4j, 1j]
    assert (z == z).tolist() == [True, True]
    x = tt.ones(2)
    assert x.conj() is x
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        z.abs_()


SHAPES = ((), (1,), (2,), (1, 1), (1, 2), (3, 1), (3, 2), (1, 1, 2))
LAYOUTS = {
    "contiguous": lambda sizes: tt.randn(sizes),
    "one element": lambda sizes: tt.randn(()).expand(sizes),
    "transposed": lambda sizes: tt.randn(sizes[::-1]).permute(tuple(reversed(range(len(sizes))))),
    "every second": lambda sizes: tt.randn([2 * n for n in sizes])[
        tuple(slice(None, None, 2) for _ in sizes)
    ],
}


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, LAYOUTS)), ids="-".join)
@pytest.mark.parametrize("op", ["mul", "add", "div", "maximum", "lt", "atan2", "fmod", "logical_and"])
def test_results_have_the_broadcast_shape_in_every_pair_of_layouts(op, layouts):
    for shapes in itertools.product(SHAPES, SHAPES):
        try:
            sizes = np.broadcast_shapes(*shapes)
        except ValueError:
            continue
        a, b = (LAYOUTS[layout](shape) for layout, shape in zip(layouts, shapes, strict=True))
        result = getattr(tt, op)(a, b)
        expected = getattr(tt, op)(*(tt.tensor(x.tolist()).expand(sizes).clone() for x in (a, b)))
        assert result.numpy().shape == result.shape == sizes, (shapes, layouts)
        assert result.tolist() == expected.tolist(), (shapes, layouts)


def test_the_gradient_of_a_broadcast_operand_of_a_sum_has_its_shape():
    bias, factor = tt.ones(2, requires_grad=True), tt.full((2,), 3.0, requires_grad=True)
    ((tt.ones(1, 3) @ tt.ones(3, 2) + bias) * factor).sum().backward()
    assert bias.grad.tolist() == [3.0, 3.0] and factor.grad.tolist() == [4.0, 4.0]
    assert bias.grad.numpy().shape == (2,)


def test_a_number_beyond_the_dtype_is_infinite_without_a_word(device):
    narrow = tt.ones(2, dtype=tt.float16, device=device)
    with np.errstate(all="raise"):
        for found in (tt.ones(2, device=device) * 1e300, narrow * 1e9, narrow.clone().mul_(7e5)):
            assert found.tolist() == [math.inf, math.inf]


def test_where_of_a_condition_alone_is_where_it_holds():
    condition = tt.tensor([[True, False], [False, True]])
    rows, columns = tt.where(condition)
    assert rows.tolist() == [0, 1] and columns.tolist() == [0, 1]
    assert [t.tolist() for t in tt.where(tt.tensor(2.0))] == [[0]]


@pytest.mark.parametrize("condition", [True, 1.0, None])
def test_where_wants_a_tensor_for_its_condition(condition):
    with pytest.raises(TypeError, match=r"argument 'condition' .* must be Tensor"):
        tt.where(condition, 1, 2)


def test_bytes_as_conditions_warn():
    with pytest.warns(UserWarning, match="where received a uint8 condition"):
        assert tt.where(tt.tensor([1, 0], dtype=tt.uint8), 1, 2).tolist() == [1, 2]
    with pytest.warns(UserWarning, match="indexing with dtype triten.uint8"):
        assert tt.arange(2)[tt.tensor([0, 1], dtype=tt.uint8)].tolist() == [1]


def test_a_single_weight_may_have_another_dtype():
    start, weight = tt.zeros(3), tt.tensor(0.5, dtype=tt.float64, requires_grad=True)
    mixed = tt.lerp(start, start + 4, weight)
    mixed.sum().backward()
    assert mixed.tolist() == [2.0] * 3 and mixed.dtype is tt.float32
    assert weight.grad.item() == 12 and weight.grad.dtype is tt.float64
    with pytest.raises(RuntimeError, match="expected dtype float32 for `weight`"):
        tt.lerp(start, start, tt.ones(3, dtype=tt.float64))


def test_numbers_made_of_parts_are_no_view():
    with tt.no_grad():
        made = tt.complex(tt.ones(2), tt.ones(2))
    assert made._base is None
    made.mul_(tt.ones(2, requires_grad=True))
    assert made.requires_grad


INFINITE = [0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_lerp_between_numbers_and_infinities(dtype, device) -> None:
    starts, ends = np.meshgrid(INFINITE, INFINITE)
    start, end = (tt.tensor(each.ravel().tolist(), dtype=dtype, device=device) for each in (starts, ends))
    for weight in (0.0, 0.25, 0.5, 0.7, 1.0):
        with np.errstate(invalid="ignore"):
            # A share of 0 takes nothing of infinity.
            shares = [
                np.where((share == 0) & np.isinf(each), 0, each * share)
                for each, share in ((starts, 1 - weight), (ends, weight))
            ]
            wanted = (shares[0] + shares[1]).ravel()
        out = tt.empty_like(start)
        tt.lerp(start, end, weight, out=out)
        for made in (
            tt.lerp(start, end, weight),
            tt.lerp(start, end, tt.full_like(start, weight)),
            start.clone().lerp_(end, weight),
            out,
            tt.compile(lambda a, b, w=weight: tt.lerp(a, b, w) * 1)(start, end),
        ):
            np.testing.assert_allclose(made.cpu().numpy(), wanted, rtol=1e-6)


def test_quantiles_between_a_number_and_infinity() -> None:
    x = tt.tensor([0.0, 1.0, math.inf], dtype=tt.float64)
    shares = [0.0, 0.25, 0.5, 0.6, 1.0]
    wanted = [0.0, 0.5, 1.0, math.inf, math.inf]
    assert tt.quantile(x, tt.tensor(shares, dtype=tt.float64)).tolist() == wanted
    assert [tt.quantile(x, share).item() for share in shares] == wanted
    assert tt.nanquantile(x, tt.tensor(shares, dtype=tt.float64)).tolist() == wanted
    assert tt.quantile(-x, 0.4).item() == -math.inf
    assert math.isnan(tt.quantile(tt.tensor([-math.inf, math.inf]), 0.5).item())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(dtype, count, device) -> None:
    a = tt.tensor([-0.0, -0.0, 0.0, 0.0, -6.0, 6.0, -7.0] * count, dtype=dtype, device=device)
    b = tt.tensor([3.0, -3.0, 3.0, -3.0, 3.0, -3.0, 3.0] * count, dtype=dtype, device=device)
    wanted = [0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 2.0]
    for made in (a % b, tt.remainder(a, b), a.clone().remainder_(b)):
        assert repr(made[:7].tolist()) == repr(wanted)
        assert repr(made[-7:].tolist()) == repr(wanted)
    assert repr((a[:4] % -3.0).tolist()) == "[-0.0, -0.0, -0.0, -0.0]"
