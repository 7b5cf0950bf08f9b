"""Special functions on the CPU and interpreted: against SciPy in float64, and at their edges against PyTorch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as reference

import triten as tt
from triten.dispatch.structured.supported_dtypes import DTYPES

INF, NAN = float("inf"), float("nan")
DEVICES = ("cpu", "cuda")
UNARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "digamma": (reference.psi, 0.2, 20),
    "lgamma": (reference.gammaln, 0.2, 20),
    "erfinv": (reference.erfinv, -0.95, 0.95),
    "i0": (reference.i0, -8, 8),
    "special.i0e": (reference.i0e, -60, 60),
    "special.i1": (reference.i1, -8, 8),
    "special.i1e": (reference.i1e, -60, 60),
    "special.airy_ai": (lambda x: reference.airy(x)[0], -4, 4),
    "special.bessel_j0": (reference.j0, -6, 6),
    "special.bessel_y1": (reference.y1, 0.5, 6),
    "special.modified_bessel_k0": (reference.k0, 0.1, 6),
    "special.modified_bessel_k1": (reference.k1, 0.1, 6),
    "special.scaled_modified_bessel_k0": (reference.k0e, 0.1, 60),
    "special.scaled_modified_bessel_k1": (reference.k1e, 0.1, 60),
    "special.spherical_bessel_j0": (lambda x: reference.spherical_jn(0, x), 0, 9),
    "special.erfcx": (reference.erfcx, -2, 30),
    "special.entr": (reference.entr, 0, 3),
    "special.ndtr": (reference.ndtr, -6, 6),
    "special.ndtri": (reference.ndtri, 0.01, 0.99),
    "special.log_ndtr": (reference.log_ndtr, -20, 4),
}
BINARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "special.gammainc": (reference.gammainc, 0.1, 30),
    "special.gammaincc": (reference.gammaincc, 0.1, 30),
    "special.zeta": (reference.zeta, 1.2, 12),
    "special.xlog1py": (reference.xlog1py, -0.9, 3),
    "xlogy": (reference.xlogy, 0.1, 3),
}
POLYNOMIALS = {
    "chebyshev_polynomial_t": reference.eval_chebyt,
    "chebyshev_polynomial_u": reference.eval_chebyu,
    "hermite_polynomial_h": reference.eval_hermite,
    "hermite_polynomial_he": reference.eval_hermitenorm,
    "laguerre_polynomial_l": reference.eval_laguerre,
    "legendre_polynomial_p": reference.eval_legendre,
    "shifted_chebyshev_polynomial_t": reference.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": reference.eval_sh_chebyu,
}
PRECISION = {"float32": 3e-5, "float64": 1e-11, "bfloat16": 2e-2, "float16": 3e-3}


def named(name: str) -> Callable[..., Any]:
    found: Any = tt
    for part in name.split("."):
        found = getattr(found, part)
    return found


def check(name: str, device: str, dtype: str, exact: Callable[..., Any], *values: Any) -> None:
    given = [tt.tensor(v, device=device).to(getattr(tt, dtype)) for v in values]
    result = named(name)(*given)
    assert result.dtype is getattr(tt, dtype)
    wanted = exact(*[g.cpu().to(tt.float64).numpy() for g in given])
    tolerance = PRECISION[dtype]
    np.testing.assert_allclose(result.cpu().to(tt.float64).numpy(), wanted, tolerance, tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(rng: np.random.Generator, name: str, dtype: str, device: str) -> None:
    exact, low, high = UNARY[name]
    if dtype in ("float16", "bfloat16") and DTYPES.get(name.replace(".", "_")) == "f":
        with pytest.raises(NotImplementedError, match="not implemented for"):
            named(name)(tt.ones(3, dtype=getattr(tt, dtype), device=device))
        return
    check(name, device, dtype, exact, rng.uniform(low, high, 67))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(rng: np.random.Generator, name: str, dtype: str, device: str) -> None:
    exact, low, high = BINARY[name]
    check(name, device, dtype, exact, rng.uniform(low, high, 37)[:, None], rng.uniform(low, high, 5))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("a", (19_000.0, 25_000.0, 1e6))
def test_incomplete_gamma_functions_of_large_orders(a: float, device: str) -> None:
    x = a + np.sqrt(a) * np.linspace(-4.4, 4.4, 21)  # as far as SciPy's own expansion goes
    for name, exact in (("igamma", reference.gammainc), ("igammac", reference.gammaincc)):
        found = named(name)(tt.tensor(a, dtype=tt.float64, device=device), tt.tensor(x, device=device))
        np.testing.assert_allclose(found.cpu().numpy(), exact(a, x), 1e-8, 1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", (0, 1, 2, 3))
def test_polygamma(rng: np.random.Generator, order: int, device: str) -> None:
    x = rng.uniform(0.3, 9, 41)
    found = tt.polygamma(order, tt.tensor(x, device=device))
    np.testing.assert_allclose(found.cpu().numpy(), reference.polygamma(order, x), 1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(rng: np.random.Generator, name: str, device: str) -> None:
    x, n = rng.uniform(-1.5, 1.5, 31)[:, None], np.arange(12)
    if name.startswith("shifted"):
        x = np.abs(x)
    found = getattr(tt.special, name)(tt.tensor(x, device=device), tt.tensor(n, device=device))
    np.testing.assert_allclose(found.cpu().numpy(), POLYNOMIALS[name](n, x), 1e-9, 1e-9)
    assert getattr(tt.special, name)(tt.tensor(x, device=device), -1).abs().sum().item() == 0


HIGH = {
    "chebyshev_polynomial_t": ([1 + 1e-9, -1 - 1e-9, 0.3, 1.0, -1.0], 1e-7),
    "chebyshev_polynomial_u": ([1 + 1e-9, -1 - 1e-9, 0.3, 1.0, -1.0], 1e-7),
    "laguerre_polynomial_l": ([0.0, 1e-6, 0.3, 5.0, 700.0, -1e-3, -0.3], 1e-7),
    "legendre_polynomial_p": ([1e-12, 0.3, -0.7, 0.9999999, 1.0, -1.0, 1 + 1e-9, -1 - 1e-9], 1e-8),
    "shifted_chebyshev_polynomial_t": ([1 + 1e-9, -1e-9, 0.3, 1.0, 0.0], 1e-6),
    "shifted_chebyshev_polynomial_u": ([1 + 1e-9, -1e-9, 0.3, 1.0, 0.0], 1e-6),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("degree", [2**17, 2**17 + 1])
@pytest.mark.parametrize("name", HIGH)
def test_polynomials_of_high_degrees(name: str, degree: int, device: str) -> None:
    numbers, tolerance = HIGH[name]
    x = np.array(numbers)
    expected = POLYNOMIALS[name](degree, x)
    found = getattr(tt.special, name)(tt.tensor(x, device=device), tt.tensor([float(degree)], device=device))
    amplitude = np.exp(np.maximum(x, 0) / 2) * 1e-2
    np.testing.assert_allclose(found.cpu().numpy() / amplitude, expected / amplitude, tolerance, tolerance)


def test_kinds_of_chebyshev_at_high_degrees() -> None:
    x, n = np.array([1 + 1e-9, -1 - 1e-9]), 2.0**17 + 1
    second, before = reference.eval_chebyu(2**17 + 1, x), reference.eval_chebyu(2**17, x)
    third, fourth = (getattr(tt.special, f"chebyshev_polynomial_{kind}")(tt.tensor(x), n) for kind in "vw")
    np.testing.assert_allclose(third.numpy(), second - before, 1e-6)
    np.testing.assert_allclose(fourth.numpy(), second + before, 1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("degree", [1e9, 1e9 + 1, 1e30])
@pytest.mark.parametrize(
    "name",
    [
        *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
        *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
    ],
)
def test_degrees_without_bound_end(name: str, degree: float, dtype: tt.dtype, device: str) -> None:
    x = tt.tensor([2000.0, -2000.0, INF, -INF, NAN, 1.0, 0.0], dtype=dtype, device=device)
    n = tt.tensor(degree, dtype=dtype, device=device)
    found = getattr(tt.special, name)(x, n).tolist()
    assert all(math.isnan(each) for each in found[:5])
    sign = 1 if n.item() % 2 == 0 else -1
    if name.startswith("hermite"):
        assert all(math.isnan(each) for each in found[5:])
    elif name.startswith("laguerre"):
        assert found[6] == 1 and abs(found[5]) < 1
    elif name.startswith("legendre"):
        assert found[5] == 1 and getattr(tt.special, name)(-x[5], n).item() == sign and abs(found[6]) < 1e-4
    else:
        edge = {"t": 1, "u": n.item() + 1, "v": 1, "w": 2 * n.item() + 1}[name[-1]]
        assert found[5] == tt.tensor(edge, dtype=dtype).item()


EDGES = {
    "digamma": ([0.0, -0.0, -1.0, INF, NAN], [-INF, INF, NAN, INF, NAN]),
    "lgamma": ([0.0, -1.0, INF, -INF, NAN], [INF, INF, INF, INF, NAN]),
    "erfinv": ([1.0, -1.0, 2.0, -0.0, NAN], [INF, -INF, NAN, -0.0, NAN]),
    "special.ndtri": ([0.0, 1.0, 2.0, -1.0, NAN], [-INF, INF, NAN, NAN, NAN]),
    "special.entr": ([0.0, -1.0, 1.0, INF, NAN], [0.0, -INF, -0.0, -INF, NAN]),
    "special.i0e": ([INF, -INF, 0.0, NAN], [0.0, 0.0, 1.0, NAN]),
    "special.modified_bessel_k0": ([0.0, -1.0, INF, NAN], [INF, NAN, 0.0, NAN]),
    "special.scaled_modified_bessel_k1": ([0.0, -1.0, INF, NAN], [INF, NAN, 0.0, NAN]),
    "special.bessel_y0": ([0.0, -1.0, NAN], [-INF, NAN, NAN]),
    "special.airy_ai": ([INF, -INF, NAN, 200.0], [NAN, NAN, NAN, 0.0]),
    "special.spherical_bessel_j0": ([0.0, INF, -INF, NAN], [1.0, 0.0, 0.0, NAN]),
    "logit": ([0.0, 1.0, 2.0, NAN], [-INF, INF, NAN, NAN]),
    "frac": ([1.5, -1.5, INF, NAN], [0.5, -0.5, NAN, NAN]),
    "nan_to_num": ([NAN, 1.0], [0.0, 1.0]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, dtype: str, device: str) -> None:
    given, wanted = EDGES[name]
    found = named(name)(tt.tensor(given, dtype=getattr(tt, dtype), device=device)).cpu().double().numpy()
    np.testing.assert_array_equal(found, np.array(wanted))
    numbers = ~np.isnan(found)
    assert (np.signbit(found) == np.signbit(wanted))[numbers].all()


@pytest.mark.parametrize("device", DEVICES)
def test_edges_of_two_numbers(device: str) -> None:
    a, b = (
        tt.tensor(v, dtype=tt.float64, device=device) for v in ([0.0, 0.0, 2.0, INF], [0.0, NAN, -1.0, 1.0])
    )
    np.testing.assert_array_equal(tt.xlogy(a, b).cpu().numpy(), [0.0, NAN, NAN, NAN])
    np.testing.assert_array_equal(tt.igamma(a, b).cpu().numpy(), [NAN, NAN, NAN, 0.0])
    s, q = (
        tt.tensor(v, dtype=tt.float64, device=device) for v in ([1.0, 0.5, 2.0, 2.5], [3.0, 3.0, -2.0, -1.5])
    )
    np.testing.assert_array_equal(tt.special.zeta(s, q).cpu().numpy(), [INF, NAN, INF, NAN])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", (tt.float16, tt.bfloat16, tt.float32, tt.float64))
def test_neighbours_are_those_of_the_dtype(dtype: tt.dtype, device: str) -> None:
    least = {tt.float16: 2.0**-24, tt.bfloat16: 2.0**-133, tt.float32: 2.0**-149, tt.float64: 5e-324}[dtype]
    a = tt.tensor([1.0, 1.0, 0.0, 0.0, 2.0, INF], dtype=dtype, device=device)
    b = tt.tensor([2.0, 0.0, 1.0, -1.0, 2.0, 0.0], dtype=dtype, device=device)
    eps = tt.finfo(dtype).eps
    expected = [1 + eps, 1 - eps / 2, least, -least, 2.0, tt.finfo(dtype).max]
    assert tt.nextafter(a, b).double().tolist() == expected


@pytest.mark.parametrize("device", DEVICES)
def test_frexp_takes_numbers_apart(device: str) -> None:
    x = tt.tensor([0.0, 1.0, -3.5, 2.0**-1074, 1e300, INF], dtype=tt.float64, device=device)
    mantissa, exponent = tt.frexp(x)
    assert exponent.dtype is tt.int32
    wanted = np.frexp(x.cpu().numpy())
    np.testing.assert_array_equal(mantissa.cpu().numpy(), wanted[0])
    np.testing.assert_array_equal(exponent.cpu().numpy(), wanted[1])


def test_refusals() -> None:
    with pytest.raises(NotImplementedError, match="Long"):
        tt.igamma(tt.ones(2, dtype=tt.int64), tt.ones(2, dtype=tt.int64))
    with pytest.raises(RuntimeError, match="negative n"):
        tt.polygamma(-1, tt.ones(2))
    with pytest.raises(RuntimeError, match="different dtypes"):
        tt.heaviside(tt.ones(2), tt.ones(2, dtype=tt.float64))
    with pytest.raises(RuntimeError, match="can't be cast"):
        tt.ones(2, dtype=tt.int64).deg2rad_()


@pytest.mark.parametrize("device", DEVICES)
def test_ctc_is_minus_the_logarithm_of_all_alignments(device: str) -> None:
    rng = np.random.default_rng(3)
    log_probs = np.log(rng.dirichlet(np.ones(3), (4, 1)))
    total = 0.0
    for path in np.ndindex(3, 3, 3, 3):
        merged = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        if merged == [1, 1]:
            total += np.exp(sum(log_probs[t, 0, c] for t, c in enumerate(path)))
    loss = tt.nn.functional.ctc_loss(
        tt.tensor(log_probs, device=device), tt.tensor([[1, 1]], device=device), (4,), (2,), reduction="none"
    )
    np.testing.assert_allclose(loss.cpu().numpy(), [-np.log(total)], 1e-12)
    impossible = tt.nn.functional.ctc_loss(
        tt.tensor(log_probs, device=device), tt.tensor([[1, 1]], device=device), (2,), (2,), reduction="sum"
    )
    assert impossible.item() == INF


@pytest.mark.parametrize("device", DEVICES)
def test_quantiles(device: str) -> None:
    x = np.random.default_rng(5).normal(size=(5, 7))
    x[1, 2] = NAN
    q = tt.tensor([0.0, 0.3, 1.0], dtype=tt.float64, device=device)
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        found = tt.nanquantile(tt.tensor(x, device=device), q, dim=1, interpolation=method)
        np.testing.assert_allclose(found.cpu().numpy(), np.nanquantile(x, [0, 0.3, 1], 1, method=method))
    assert tt.quantile(tt.tensor(x, device=device), 0.5, dim=1).isnan().tolist() == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert tt.nansum(tt.tensor(x, device=device)).item() == pytest.approx(np.nansum(x))


def test_trunc_normal_stays_within_its_bounds() -> None:
    drawn = tt.nn.init.trunc_normal_(
        tt.empty(4000), std=2.0, a=-1.0, b=3.0, generator=tt.Generator().manual_seed(1)
    )
    assert drawn.min().item() >= -1 and drawn.max().item() <= 3 and 0.5 < drawn.mean().item() < 1.1


def test_airy_ai_oscillates_as_far_as_numbers_go():
    x = tt.tensor([-9.9e4, -1.01e5, -9e5, -4988429.0], dtype=tt.float64)
    # The leading term of its asymptotic series (DLMF 9.7.9).
    zeta = (-x).pow(1.5) * (2 / 3)
    expected = (zeta - math.pi / 4).cos() / ((-x).sqrt() * math.pi).sqrt()
    got = tt.special.airy_ai(x)
    assert bool(((got - expected).abs() <= 1e-5 * (-x).pow(-0.25)).all())
    assert tt.special.airy_ai(tt.tensor([float("-inf"), float("nan")])).isnan().all()


@pytest.mark.parametrize("order", [171, 10**6, 1 << 62])
def test_polygamma_of_an_order_whose_factorial_overflows(device, order):
    found = tt.special.polygamma(order, tt.tensor([0.5, 1e30], device=device)).tolist()
    assert math.isinf(found[0]) and not math.isfinite(found[1])


@pytest.mark.parametrize("place", ["self", "values", "out"])
def test_heaviside_of_complex_numbers_is_refused(place):
    given = {name: tt.ones(2) for name in ("self", "values", "out")}
    given[place] = tt.ones(2, dtype=tt.complex64)
    with pytest.raises(RuntimeError, match="heaviside is not yet implemented for complex tensors"):
        tt.heaviside(given["self"], given["values"], out=given["out"])


@pytest.mark.parametrize(
    "kind",
    ["chebyshev_polynomial_t", "chebyshev_polynomial_w", "hermite_polynomial_h", "laguerre_polynomial_l"],
)
def test_degrees_of_a_tensor_are_those_of_numbers(kind):
    polynomial, x = getattr(tt.special, kind), tt.linspace(-1.5, 1.5, 9)
    degrees = tt.arange(-2, 7)[:, None]
    expected = tt.stack([polynomial(x, n) for n in range(-2, 7)])
    assert tt.allclose(polynomial(x, degrees), expected, 1e-5, 1e-5)
    assert tt.allclose(polynomial(x, degrees[2:]), expected[2:], 1e-5, 1e-5)
