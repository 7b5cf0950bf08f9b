"""Complex numbers on CUDA agree with the CPU: every function, edge values and random numbers, every layout."""

from itertools import product

import numpy as np
import pytest

import triten as tt

DTYPES = {tt.complex64: 4e-6, tt.complex128: 1e-13}
"""Each with what its parts may differ by, relative to the number's size."""

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj_physical", "cos", "cosh", "exp", "expm1", "log",
    "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan",
    "tanh",
]  # fmt: skip
BINARY = {
    "add": tt.add,
    "sub": tt.sub,
    "mul": tt.mul,
    "div": tt.div,
    "eq": tt.eq,
    "ne": tt.ne,
    "logical_and": tt.logical_and,
    "logical_or": tt.logical_or,
    "logical_xor": tt.logical_xor,
    "add with alpha": lambda a, b: tt.add(a, b, alpha=2 - 1j),
    "sub with alpha": lambda a, b: tt.sub(a, b, alpha=0.5j),
    "rsub": lambda a, b: tt.rsub(a, b),
    "silu": lambda a, b: tt.nn.functional.silu(a) + b,
}
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, 1e-30, -3e38, np.inf, -np.inf, np.nan]
BETTER = {
    "expm1": lambda z: ~np.isfinite(z),
    "log1p": lambda z: ~np.isfinite(z) | (np.abs(z) < 1e-20) | (np.abs(z) > 1e37),
    "reciprocal": lambda z: z == 0,
    "rsqrt": lambda z: z == 0,
}
"""Where NumPy has NaN for what C99 knows, or none of the bits."""


def agree(found, expected, tolerance):
    """Return where parts are equal, zeros with their signs, or numbers are within a relative tolerance."""
    with np.errstate(all="ignore"):
        if found.dtype.kind != "c":
            close = np.abs(found.astype(np.float64) - expected) <= tolerance * np.abs(expected)
            return (found == expected) | close | (np.isnan(found) & np.isnan(expected))
        unknown = np.isnan(expected.real) | np.isnan(expected.imag)
        same = [
            ((a == b) & (np.signbit(a) == np.signbit(b)))
            | (np.isnan(a) & np.isnan(b))
            | (unknown & (np.abs(a) == np.abs(b)))  # C99 leaves the signs unspecified if a part is NaN
            for a, b in ((found.real, expected.real), (found.imag, expected.imag))
        ]
        finite = np.isfinite(found) & np.isfinite(expected)
        return (same[0] & same[1]) | (finite & (np.abs(found - expected) <= tolerance * np.abs(expected)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_edges(name, dtype):
    values = np.array([complex(*pair) for pair in product(PARTS, PARTS)], dtype.np)
    function = getattr(tt, name)
    found = function(tt.from_numpy(values).to("cuda")).cpu().numpy()
    expected = function(tt.from_numpy(values)).numpy()
    assert found.dtype == expected.dtype
    wrong = ~agree(found, expected, DTYPES[dtype])
    if name in BETTER:
        wrong &= ~BETTER[name](values)
    assert not wrong.any(), list(zip(values[wrong], found[wrong], expected[wrong], strict=True))[:10]


def numbers(random, sizes, dtype):
    """Return complex host tensors with random parts."""
    real, imaginary = random(sizes, dtype.to_real()), random(sizes, dtype.to_real())
    return tt.from_numpy((real.numpy() + 1j * imaginary.numpy()).astype(dtype.np))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_and_quotients_at_edges(dtype):
    parts = [
        part for part in PARTS if part not in (-3e38, -0.0)
    ]  # whether its products overflow depends on fusion
    values = np.array([complex(*pair) for pair in product(parts, parts)], dtype.np)
    a = tt.from_numpy(values)
    b = tt.from_numpy(np.roll(values, 37))
    for name in ("mul", "div"):
        found = getattr(tt, name)(a.to("cuda"), b.to("cuda")).cpu().numpy()
        expected = getattr(tt, name)(a, b).numpy()
        wrong = ~agree(found, expected, DTYPES[dtype])
        assert not wrong.any(), (
            name,
            values[wrong][:5],
            b.numpy()[wrong][:5],
            found[wrong][:5],
            expected[wrong][:5],
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_quotients_neither_overflow_nor_vanish(dtype):
    """Divide without overflow or underflow, although the squares of the divisor's parts have one."""
    large = 1e30 if dtype is tt.complex64 else 1e300
    for size in (large, 1 / large):
        a = tt.tensor([complex(size, 2 * size)], dtype=dtype)
        x = a.to("cuda")
        np.testing.assert_allclose((x / x).cpu().numpy(), [1], rtol=1e-6)
        unequal = tt.tensor([complex(1 / size, size), complex(size, 1 / size)], dtype=dtype)
        quotient = unequal.to("cuda") / unequal.to("cuda")
        np.testing.assert_allclose(quotient.cpu().numpy(), [1, 1], rtol=1e-6)
        same = tt.reciprocal(x).cpu().numpy() * size
        np.testing.assert_allclose(same, [0.2 - 0.4j], rtol=1e-6)
        np.testing.assert_allclose(tt.abs(x).cpu().numpy(), [size * 5**0.5], rtol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_random_numbers(rng, name, dtype=tt.complex64):
    parts = (rng.standard_normal((2, 500)) * np.exp(rng.uniform(-3, 3, (2, 500)))).astype(dtype.to_real().np)
    values = (parts[0] + 1j * parts[1]).astype(dtype.np)
    exact = getattr(tt, name)(tt.from_numpy(values.astype(np.complex128))).numpy()
    found = getattr(tt, name)(tt.from_numpy(values).to("cuda")).cpu().numpy()
    expected = exact.astype(found.dtype)
    wrong = ~agree(found, expected, DTYPES[dtype])
    assert not wrong.any(), (values[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("other", [tt.complex64, tt.complex128, tt.float64, tt.bool], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(random, same, name, other):
    a = numbers(random, (6, 35), tt.complex64)
    b = numbers(random, (35,), other) if other.is_complex else random((35,), other)
    if other is tt.bool and ("sub" in name):
        b = random((35,), tt.int8)
    x, y = a.to("cuda"), b.to("cuda")
    function = BINARY[name]
    same(function(x, y), function(a, b), tolerance=4e-6)


VIEWS = {
    "whole": lambda z: z,
    "transposed": lambda z: z.t(),
    "every second column": lambda z: z[:, ::2],
    "odd columns": lambda z: z[:, 3:],
    "one column": lambda z: z[:, 2:3],
    "offset": lambda z: z[1:],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_layouts(monkeypatch, random, same, name, dtype):
    from triten.triton_kernels import launch
    from triten.triton_kernels.elementwise import rows

    monkeypatch.setattr(rows, "INTERPRETED_BLOCK", 64)
    monkeypatch.setattr(launch, "INT32_MAX", 40 if dtype is tt.complex64 else 2**31 - 1)
    view = VIEWS[name]
    a = numbers(random, (23, 31), dtype)
    row = random((1,), tt.float32)
    x, y = a.to("cuda"), row.to("cuda")
    same(view(x) * (1 + 2j) + y, view(a) * (1 + 2j) + row, tolerance=1e-6)
    same(view(x).contiguous(), view(a).contiguous())
    same(view(x).to(tt.complex128).to(tt.complex64), view(a).to(tt.complex128).to(tt.complex64))
    same(view(x).real + view(x).imag, view(a).real + view(a).imag)
    same(tt.view_as_real(x).sum(-1), tt.view_as_real(a).sum(-1), tolerance=1e-6)
    view(x).mul_(2j)
    view(a).mul_(2j)
    same(x, a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("source", [tt.float32, tt.float64, tt.int8, tt.bool, tt.bfloat16], ids=str)
def test_between_real_and_complex(random, same, source, dtype):
    a = random((5, 9), source)
    same(a.to("cuda").t().to(dtype), a.t().to(dtype))
    b = numbers(random, (5, 9), dtype)
    target = tt.empty(9, 5, dtype=source, device="cuda")
    if source is tt.bool:
        return
    same(target.copy_(b.to("cuda").t()), tt.empty(9, 5, dtype=source).copy_(b.t()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factories(same, dtype):
    for make in (
        lambda device: tt.zeros(3, 5, dtype=dtype, device=device),
        lambda device: tt.ones(33, dtype=dtype, device=device),
        lambda device: tt.full((2, 2), 3 - 2j, dtype=dtype, device=device),
        lambda device: tt.empty(4, 6, dtype=dtype, device=device).t()[1:, ::2].fill_(1j),
    ):
        same(make("cuda"), make("cpu"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_three_operands(random, same, dtype):
    a, b, c = (numbers(random, (4, 21), dtype) for _ in range(3))
    x, y, z = (t.to("cuda") for t in (a, b, c))
    condition = random((21,), tt.bool)
    tolerance = DTYPES[dtype]
    same(tt.where(condition.to("cuda"), x, y), tt.where(condition, a, b))
    same(x.masked_fill(condition.to("cuda"), 3j), a.masked_fill(condition, 3j))
    same(tt.addcmul(x, y, z, value=1 - 1j), tt.addcmul(a, b, c, value=1 - 1j), tolerance)
    same(tt.addcmul(x, y, z), tt.addcmul(a, b, c), tolerance)
    same(tt.addcdiv(x, y, z), tt.addcdiv(a, b, c), 10 * tolerance)
    same(tt.lerp(x, y, z), tt.lerp(a, b, c), tolerance)
    same(tt.lerp(x, y, 0.25), tt.lerp(a, b, 0.25), tolerance)
    same(tt.pow(x, 2), tt.pow(a, 2), 10 * tolerance)
    same(tt.pow(x, y), tt.pow(a, b), 50 * tolerance)


def test_gradients(random, same):
    a, b = (numbers(random, (4, 5), tt.complex64) for _ in range(2))
    grads = []
    for device in ("cpu", "cuda"):
        x, y = (t.detach().to(device).requires_grad_() for t in (a, b))
        (tt.abs(x * y.exp() + tt.sqrt(x) / y)).sum().backward()
        grads.append((x.grad, y.grad))
    for expected, found in zip(*grads, strict=True):
        same(found, expected, tolerance=1e-4)


def test_what_has_no_order_is_refused():
    x = tt.from_numpy(np.ones(3, np.complex64)).to("cuda")
    with pytest.raises(NotImplementedError, match=r"lt_cuda.*ComplexFloat"):
        tt.lt(x, x)
    with pytest.raises(NotImplementedError, match=r"atan2_cuda.*ComplexFloat"):
        tt.atan2(x, x)
