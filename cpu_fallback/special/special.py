"""Special functions on the CPU, a row for each; SciPy's where they are PyTorch's, at first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.dtype_kinds import FLOAT
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..elementwise import wide_kernels
from ..elementwise.elementwise import SLOW, planned
from ..elementwise.pointwise import Row, by_passes, check_kind, loaded
from . import special_math as m

OPERATORS: dict[str, Row] = {
    "digamma": ("scipy.special:psi", FLOAT),
    "erfinv": (m.erfinv, FLOAT),
    "i0": ("scipy.special:i0", FLOAT),
    "igamma": (m.gammainc, FLOAT),
    "igammac": (m.gammaincc, FLOAT),
    "lgamma": (m.lgamma, FLOAT),
    "special_airy_ai": (m.airy_ai, FLOAT),
    "special_bessel_j0": ("scipy.special:j0", FLOAT),
    "special_bessel_j1": ("scipy.special:j1", FLOAT),
    "special_bessel_y0": ("scipy.special:y0", FLOAT),
    "special_bessel_y1": ("scipy.special:y1", FLOAT),
    "special_entr": ("scipy.special:entr", FLOAT),
    "special_erfcx": ("scipy.special:erfcx", FLOAT),
    "special_i0e": ("scipy.special:i0e", FLOAT),
    "special_i1": ("scipy.special:i1", FLOAT),
    "special_i1e": ("scipy.special:i1e", FLOAT),
    "special_log_ndtr": ("scipy.special:log_ndtr", FLOAT),
    "special_modified_bessel_i0": ("scipy.special:i0", FLOAT),
    "special_modified_bessel_i1": ("scipy.special:i1", FLOAT),
    "special_modified_bessel_k0": ("scipy.special:k0", FLOAT),
    "special_modified_bessel_k1": ("scipy.special:k1", FLOAT),
    "special_ndtri": ("scipy.special:ndtri", FLOAT),
    "special_scaled_modified_bessel_k0": ("scipy.special:k0e", FLOAT),
    "special_scaled_modified_bessel_k1": ("scipy.special:k1e", FLOAT),
    "special_spherical_bessel_j0": (m.spherical_bessel_j0, FLOAT),
    "special_xlog1py": ("scipy.special:xlog1py", FLOAT),
    "special_zeta": (m.zeta, FLOAT),
    "xlogy": ("scipy.special:xlogy", FLOAT),
}

POLYNOMIALS: dict[str, Callable[..., Any]] = {f"special_{name}": f for name, f in m.POLYNOMIALS.items()}
"""Orthogonal polynomials, by recurrences of three terms."""


def row(stub: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a table row."""
    function, kinds = OPERATORS[stub] if stub in OPERATORS else (POLYNOMIALS[stub], FLOAT)

    def factory(call: StructuredCall) -> PlannedKernel:
        check_kind(call, kinds)
        implementation = loaded(function)
        if stub in OPERATORS:
            SLOW.add(implementation)
        return wide_kernels.for_many(stub, call, by_passes(call, stub, implementation))

    return factory


def polygamma(call: StructuredCall) -> PlannedKernel:
    """Compute the n-th derivative of digamma."""
    check_kind(call, FLOAT)
    return planned(call, m.polygamma_of(call.args["n"]))


FACTORIES = {name: row(name) for name in (*OPERATORS, *POLYNOMIALS)} | {"polygamma": polygamma}

for _name, _factory in FACTORIES.items():
    register_stub(f"{_name}_stub", "cpu", _factory)
