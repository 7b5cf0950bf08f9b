"""Calls of special functions and of those that take numbers apart: each in float32, the longest in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...triton_kernels.elementwise import number_representation as representation
from ...triton_kernels.special import gamma, special
from .sample import Sample, empty, gradients, tt

UNARY = (
    *("digamma", "erfinv", "frac", "i0", "lgamma", "logit", "nan_to_num", "sgn", "signbit", "sinc"),
    *(f"special.{name}" for name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr")),
    *(f"special.{name}" for name in ("erfcx", "i0e", "i1", "i1e", "log_ndtr", "modified_bessel_k0", "ndtri")),
    *(
        f"special.{name}"
        for name in ("modified_bessel_k1", "scaled_modified_bessel_k0", "spherical_bessel_j0")
    ),
    "special.scaled_modified_bessel_k1",
)
BINARY = (
    *("copysign", "heaviside", "hypot", "igamma", "igammac", "logaddexp", "logaddexp2", "nextafter", "xlogy"),
    *("special.xlog1py", "special.zeta"),
)
LONG = ("digamma", "igamma", "lgamma", "special.airy_ai", "special.bessel_y0", "special.i0e", "special.zeta")


def functions() -> list[Any]:
    """Return the functions that `special_functions` launches and `pointwise.FUNCTIONS` does not name."""
    representation_functions = (
        representation.logit,
        representation.logit_within,
        representation.logit_backward,
        representation.logit_backward_within,
        representation.nextafter,
    )
    return [
        *special.FUNCTIONS.values(),
        gamma.trigamma,
        gamma.polygamma,
        representation.nan_to_num,
        *representation_functions,
    ]


def named(name: str) -> Callable[..., Any]:
    """Return a function of triten or of one of its namespaces."""
    value: Any = tt
    for part in name.split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]


def special_functions(capability: int) -> Iterator[Sample]:
    dense = ("dense",)
    n = 1 << 16
    polynomials = [name.removeprefix("special_") for name in special.FUNCTIONS if "_polynomial_" in name]
    x, y = empty(n), empty(n)
    for name in UNARY:
        yield Sample(f"{name} float32", partial(named(name), x), dense)
    for name in (*BINARY, *(f"special.{name}" for name in polynomials)):
        yield Sample(f"{name} float32", partial(named(name), x, y), dense)
    for order in (0, 1, 3):
        yield Sample(f"polygamma {order} float32", partial(tt.polygamma, order, x), dense)
    yield Sample("frexp float32", lambda: tt.frexp(x), dense)
    yield Sample("logit within float32", lambda: gradients(lambda a: tt.logit(a, 0.1), x), dense)
    yield Sample("logit backward float32", lambda: gradients(tt.logit, x), dense)
    wide = empty(n, dtype="float64")
    for name in LONG:
        args = (wide, wide) if name in BINARY else (wide,)
        yield Sample(f"{name} float64", partial(named(name), *args), dense)
    narrow = empty(n, dtype="bfloat16")
    for name in ("lgamma", "nextafter"):
        args = (narrow, narrow) if name in BINARY else (narrow,)
        yield Sample(f"{name} bfloat16", partial(named(name), *args), dense)
