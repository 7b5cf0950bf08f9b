"""Matmul and matrix-vector operators: values, edge cases, forms, errors, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt

FLOATS = ["float32", "float64", "complex64", "complex128"]
NARROW = ["float16", "bfloat16"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
TOLERANCE = {
    "float32": 1e-5,
    "complex64": 1e-5,
    "float64": 1e-12,
    "complex128": 1e-12,
    "float16": 2e-3,
    "bfloat16": 2e-2,
}

SHAPES: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    "mm": [((3, 4), (4, 5)), ((1, 7), (7, 1)), ((40, 33), (33, 37))],
    "bmm": [((2, 3, 4), (2, 4, 5)), ((1, 1, 3), (1, 3, 2))],
    "mv": [((3, 4), (4,)), ((1, 5), (5,))],
    "dot": [((6,), (6,)), ((1,), (1,))],
    "matmul": [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4,)),
        ((2, 6, 3, 4), (4, 5)),
        ((4,), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 3, 4), (1, 4, 5)),
    ],
}
CASES = [(name, shapes) for name, several in SHAPES.items() for shapes in several]


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return numbers whose products are exact enough to compare."""
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    made = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        made = made + 1j * rng.standard_normal(shape)
    return np.asarray(made, None if dtype in NARROW else dtype)


def tensor(array: Any, dtype: str) -> Any:
    """Convert an array to a tensor of a dtype."""
    return tt.from_numpy(np.asarray(array)).to(getattr(tt, dtype))


def wide(x: Any) -> Any:
    """Convert a tensor to an array in which NumPy can compute."""
    return np.asarray((x if x.dtype in (tt.complex64, tt.complex128) else x.to(tt.float64)).numpy())


@pytest.mark.parametrize("dtype", FLOATS + NARROW)
@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_floating_products(name: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = (tensor(sample(s, dtype, i), dtype) for i, s in enumerate(shapes))
    found = getattr(tt, name)(a, b)
    want = np.matmul(wide(a), wide(b))
    assert found.dtype is a.dtype and tuple(found.shape) == want.shape
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(wide(found), want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("name", "shapes"), [*CASES, ("mm", ((30, 40), (40, 30)))])
def test_integer_products_wrap_around(name: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = (sample(s, dtype, i) for i, s in enumerate(shapes))
    found = getattr(tt, name)(tt.from_numpy(a), tt.from_numpy(b))
    exact = np.matmul(a.astype(object), b.astype(object))
    bits = np.iinfo(dtype).bits
    wrapped = np.asarray(exact % (1 << bits)).astype(np.uint64).astype(dtype)
    np.testing.assert_array_equal(found.numpy(), wrapped)


@pytest.mark.parametrize("magnitude", [3, 1 << 20, 1 << 40])
def test_large_integer_products_are_exact(magnitude: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-magnitude, magnitude, (2, 50, 50))
    with np.errstate(over="ignore"):
        want = np.matmul(a, b)
    np.testing.assert_array_equal((tt.from_numpy(a) @ tt.from_numpy(b)).numpy(), want)


@pytest.mark.parametrize("layout", ["transposed", "stepped", "reversed order", "expanded"])
@pytest.mark.parametrize("name", ["mm", "bmm"])
def test_operands_as_they_lie(name: str, layout: str) -> None:
    lead = (2,) if name == "bmm" else ()
    base = sample((*lead, 6, 8), "float32")
    x = tt.from_numpy(base)
    if layout == "transposed":
        a, want = x.transpose(-1, -2), base.swapaxes(-1, -2)
    elif layout == "stepped":
        a, want = x[..., ::2, ::2], base[..., ::2, ::2]
    elif layout == "expanded":
        a, want = x[..., :1].expand((*lead, 6, 5)), np.broadcast_to(base[..., :1], (*lead, 6, 5))
    else:
        order = (*range(len(lead) + 1, -1, -1),)
        a, want = x.permute(order), base.transpose(order)
        a, want = (a, want) if name == "mm" else (a.permute((2, 1, 0)), want.transpose((2, 1, 0)))
    other = sample((*want.shape[:-2], want.shape[-1], 3), "float32", 1)
    found = getattr(tt, name)(a, tt.from_numpy(other))
    np.testing.assert_allclose(found.numpy(), want @ other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", ((0, 3), (3, 4))),
        ("mm", ((2, 0), (0, 4))),
        ("bmm", ((2, 2, 0), (2, 0, 4))),
        ("bmm", ((0, 2, 3), (0, 3, 4))),
        ("mv", ((2, 0), (0,))),
        ("dot", ((0,), (0,))),
        ("matmul", ((2, 0, 3), (3, 4))),
    ],
)
def test_empty_products_are_zeros(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    found = getattr(tt, name)(tt.ones(shapes[0]), tt.ones(shapes[1]))
    want = np.matmul(np.ones(shapes[0]), np.ones(shapes[1]))
    assert tuple(found.shape) == want.shape
    np.testing.assert_array_equal(found.numpy(), want)


SUMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]] = {
    "addmm": ((3, 4), (4, 5), np.matmul),
    "addmv": ((3, 4), (4,), np.matmul),
    "baddbmm": ((2, 3, 4), (2, 4, 5), np.matmul),
    "addbmm": ((2, 3, 4), (2, 4, 5), lambda a, b: np.matmul(a, b).sum(0)),
}


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 1), (1, -2.0), (2, 3), (0, 1.5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_with_products(name: str, dtype: str, beta: float, alpha: float) -> None:
    first, second, product = SUMS[name]
    a, b = tensor(sample(first, dtype), dtype), tensor(sample(second, dtype, 1), dtype)
    made = product(wide(a), wide(b))
    for shape in {made.shape, made.shape[-1:], ()}:
        if name == "addmv" and shape == ():
            continue
        c = tensor(sample(shape, dtype, 2), dtype)
        found = getattr(tt, name)(c, a, b, beta=beta, alpha=alpha)
        tolerance = TOLERANCE[dtype]
        want = beta * wide(c) + alpha * made
        assert found.dtype is c.dtype
        np.testing.assert_allclose(wide(found), want, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("name", SUMS)
def test_a_beta_of_zero_drops_nan(name: str) -> None:
    first, second, product = SUMS[name]
    a, b = sample(first, "float64"), sample(second, "float64", 1)
    want = product(a, b)
    nans = tt.full(want.shape, float("nan"), dtype=tt.float64)
    found = getattr(tt, name)(nans, tt.from_numpy(a), tt.from_numpy(b), beta=0)
    np.testing.assert_allclose(found.numpy(), want)


@pytest.mark.parametrize("name", SUMS)
def test_sums_in_place_and_into(name: str) -> None:
    first, second, product = SUMS[name]
    a, b = sample(first, "float32"), sample(second, "float32", 1)
    want = product(a, b) + 1
    x, y = tt.from_numpy(a), tt.from_numpy(b)
    target = tt.ones(want.shape)
    version = target._version_cell
    assert getattr(target, name + "_")(x, y) is target and target._version_cell != version
    np.testing.assert_allclose(target.numpy(), want, rtol=1e-5, atol=1e-5)
    out = tt.empty(want.shape[::-1]).permute((*range(len(want.shape) - 1, -1, -1),))
    strides = out.stride()
    assert getattr(tt, name)(tt.ones(1), x, y, out=out) is out and out.stride() == strides
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-5)


def test_in_place_with_an_operand_that_is_written() -> None:
    a = sample((4, 4), "float32")
    x = tt.from_numpy(a.copy())
    x.addmm_(x, x)
    np.testing.assert_allclose(x.numpy(), a + a @ a, rtol=1e-5, atol=1e-5)
    y = tt.from_numpy(a.copy())
    tt.mm(y, y, out=y)
    np.testing.assert_allclose(y.numpy(), a @ a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_out_forms(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (sample(s, "float32", i) for i, s in enumerate(shapes))
    want = np.matmul(a, b)
    x, y = tt.from_numpy(a), tt.from_numpy(b)
    given = tt.empty(want.shape)
    address = given.data_ptr()
    assert getattr(tt, name)(x, y, out=given) is given and given.data_ptr() == address
    np.testing.assert_allclose(given.numpy(), want, rtol=1e-5, atol=1e-5)
    resized = tt.empty(0)
    getattr(tt, name)(x, y, out=resized)
    np.testing.assert_allclose(resized.numpy(), want, rtol=1e-5, atol=1e-5)
    spread = tt.empty((*want.shape, 2))[..., 0]
    strides = spread.stride()
    getattr(tt, name)(x, y, out=spread)
    assert spread.stride() == strides
    np.testing.assert_allclose(spread.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("input", "weight", "bias"),
    [
        ((2, 3), (4, 3), (4,)),
        ((3,), (4, 3), (4,)),
        ((2, 5, 3), (4, 3), (4,)),
        ((2, 2, 5, 3), (4, 3), None),
        ((2, 5, 3), (4, 3), (1,)),
        ((2, 3), (3,), None),
        ((3,), (3,), ()),
        ((0, 3), (4, 3), (4,)),
    ],
)
def test_linear(input: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...] | None) -> None:
    x, w = sample(input, "float32"), sample(weight, "float32", 1)
    b = None if bias is None else sample(bias, "float32", 2)
    found = tt.linear(tt.from_numpy(x), tt.from_numpy(w), None if b is None else tt.from_numpy(np.asarray(b)))
    want = x @ w.T + (0 if b is None else b)
    assert tuple(found.shape) == np.shape(want) and found.is_contiguous()
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_a_weight_lies_as_the_weight() -> None:
    w = tt.ones(4, 3, requires_grad=True)
    tt.linear(tt.ones(2, 3), w).sum().backward()
    assert w.grad.stride() == w.stride()


def test_outer_and_vdot() -> None:
    a, b = sample((3,), "complex64"), sample((3,), "complex64", 1)
    x, y = tt.from_numpy(a), tt.from_numpy(b)
    np.testing.assert_allclose(tt.outer(x, y).numpy(), np.outer(a, b), rtol=1e-6)
    np.testing.assert_allclose(tt.vdot(x, y).numpy(), np.vdot(a, b), rtol=1e-6)
    mixed = tt.outer(tt.arange(3), tt.ones(2, dtype=tt.float64))
    assert mixed.dtype is tt.float64 and tuple(mixed.shape) == (3, 2)


def test_operators() -> None:
    a, b = sample((3, 4), "float32"), sample((4, 2), "float32", 1)
    np.testing.assert_allclose((tt.from_numpy(a) @ tt.from_numpy(b)).numpy(), a @ b, rtol=1e-5)
    for other in ([1.0], 2, None):
        with pytest.raises(TypeError):
            tt.from_numpy(a) @ other


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: tt.mm(tt.ones(2, 3), tt.ones(2, 3)),
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
        ),
        (lambda: tt.mm(tt.ones(2), tt.ones(2, 3)), "self must be a matrix"),
        (
            lambda: tt.mm(tt.ones(2, 2), tt.ones(2, 2, dtype=tt.float64)),
            "same dtype, but got: float != double",
        ),
        (lambda: tt.mm(tt.ones(2, 2), tt.ones(2, 2, device="meta")), "same device"),
        (lambda: tt.mm(tt.ones(2, 2), tt.ones(2, 2), out=tt.empty(2, 2, dtype=tt.float64)), "dtype"),
        (lambda: tt.bmm(tt.ones(2, 2, 2), tt.ones(3, 2, 2)), "to be: [2, 2] but got: [3, 2]"),
        (lambda: tt.bmm(tt.ones(2, 2), tt.ones(3, 2, 2)), "batch1 must be a 3D tensor"),
        (lambda: tt.mv(tt.ones(2, 2), tt.ones(3)), "size mismatch, got input (2), mat (2x2), vec (3)"),
        (lambda: tt.mv(tt.ones(2), tt.ones(3)), "vector + matrix @ vector expected, got 1, 1, 1"),
        (lambda: tt.dot(tt.ones(2), tt.ones(3)), "inconsistent tensor size, expected tensor [2] and src [3]"),
        (lambda: tt.dot(tt.ones(2, 2), tt.ones(3)), "1D tensors expected, but got 2D and 1D"),
        (lambda: tt.outer(tt.ones(2, 2), tt.ones(2)), "outer: Expected 1-D argument self, but got 2-D"),
        (
            lambda: tt.addmm(tt.ones(3), tt.ones(2, 3), tt.ones(3, 2)),
            "The expanded size of the tensor (2) must match",
        ),
        (lambda: tt.ones(2).addmm_(tt.ones(2, 3), tt.ones(3, 2)), "Bad in-place call"),
        (lambda: tt.addmm(tt.ones(2), tt.ones(2, 3), tt.ones(3, 2), beta=2j), "value cannot be converted"),
        (lambda: tt.addmv(tt.ones(3), tt.ones(2, 3), tt.ones(3)), "size mismatch"),
        (
            lambda: tt.baddbmm(tt.ones(2).double(), tt.ones(1, 2, 2), tt.ones(1, 2, 2)),
            "Input dtypes must be the same",
        ),
        (
            lambda: tt.addbmm(tt.ones(2), tt.ones(2, 2, 3), tt.ones(1, 3, 2)),
            "same number of batches, got 2 and 1",
        ),
        (lambda: tt.matmul(tt.ones(()), tt.ones(2)), "at least 1D, but they are 0D and 1D"),
        (lambda: tt.matmul(tt.ones(4, 2, 3), tt.ones(5, 3, 2)), "The size of tensor a (4) must match"),
        (
            lambda: tt.matmul(tt.ones(2, 4, 2, 3), tt.ones(6, 5, 3, 2)),
            "tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1",
        ),
        (lambda: tt.linear(tt.ones(2, 3), tt.ones(4, 2)), "cannot be multiplied (2x3 and 2x4)"),
    ],
)
def test_errors(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(RuntimeError) as error:
        call()
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["mm", "bmm", "mv", "dot"])
def test_bool_is_refused(name: str) -> None:
    a, b = (tt.ones(s, dtype=tt.bool) for s in SHAPES[name][0])
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(tt, name)(a, b)


def test_out_refuses_grad() -> None:
    a = tt.ones(2, 2, requires_grad=True)
    for name in ("mm", "matmul"):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            getattr(tt, name)(a, a, out=tt.empty(2, 2))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tt.matmul(tt.ones(2, 2, 2), a, out=tt.empty(2, 2, 2))


@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_meta(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (tt.ones(s, device="meta") for s in shapes)
    found = getattr(tt, name)(a, b)
    here = getattr(tt, name)(tt.ones(shapes[0]), tt.ones(shapes[1]))
    assert found.device.type == "meta" and found.shape == here.shape and found.stride() == here.stride()


def leaf(shape: tuple[int, ...], seed: int) -> Any:
    """Return a float64 leaf."""
    return tt.from_numpy(np.asarray(sample(shape, "float64", seed))).requires_grad_()


GRADIENTS = [c for c in CASES if max(np.prod(s) for s in c[1]) < 200]


@pytest.mark.parametrize(("name", "shapes"), GRADIENTS)
def test_gradients(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    inputs = tuple(leaf(s, i) for i, s in enumerate(shapes))
    assert tt.autograd.gradcheck(getattr(tt, name), inputs)


@pytest.mark.parametrize("name", ["mm", "bmm", "mv", "dot"])
def test_second_gradients(name: str) -> None:
    inputs = tuple(leaf(s, i) for i, s in enumerate(SHAPES[name][0]))
    assert tt.autograd.gradgradcheck(getattr(tt, name), inputs)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, -2.0), (3, 1)])
@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_sums(name: str, beta: float, alpha: float) -> None:
    first, second, product = SUMS[name]
    shape = product(np.ones(first), np.ones(second)).shape
    inputs = (leaf(shape[-1:], 0), leaf(first, 1), leaf(second, 2))
    assert tt.autograd.gradcheck(lambda *a: getattr(tt, name)(*a, beta=beta, alpha=alpha), inputs)


def test_gradient_of_linear_with_a_transposed_weight() -> None:
    inputs = (leaf((2, 3, 4), 0), leaf((5, 4), 1), leaf((5,), 2))
    assert tt.autograd.gradcheck(tt.linear, inputs)
    assert tt.autograd.gradgradcheck(tt.linear, inputs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tt.linalg.cond(tt.eye(2), "other"), "linalg.cond got an invalid norm type: other"),
        (lambda: tt.linalg.cond(tt.eye(2), 3), "linalg.cond got an invalid norm type: 3"),
        (lambda: tt.linalg.tensorsolve(tt.ones(6, 6), tt.ones(5)), "but got 6 != 5"),
        (lambda: tt.linalg.tensorsolve(tt.ones(2, 3, 6), tt.ones(2, 3), dims=(0,)), "but got 2 != 6"),
    ],
)
def test_arguments_are_refused_by_their_own_names(call: Callable[[], tt.Tensor], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()
