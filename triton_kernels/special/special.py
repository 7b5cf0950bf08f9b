"""Special functions on CUDA: a line for each, over the elementwise skeleton."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.dtype_kinds import FLOAT
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..elementwise.elementwise import HEAVY
from ..elementwise.pointwise import computed, pointwise
from . import airy, bessel, gamma, incomplete_gamma, normal
from .polynomials import POLYNOMIALS

FUNCTIONS: dict[str, Any] = {
    "digamma": gamma.digamma,
    "erfinv": normal.erfinv,
    "i0": bessel.i0,
    "igamma": incomplete_gamma.igamma,
    "igammac": incomplete_gamma.igammac,
    "lgamma": gamma.lgamma,
    "special_airy_ai": airy.airy_ai,
    "special_bessel_j0": bessel.j0,
    "special_bessel_j1": bessel.j1,
    "special_bessel_y0": bessel.y0,
    "special_bessel_y1": bessel.y1,
    "special_entr": normal.entr,
    "special_erfcx": normal.erfcx,
    "special_i0e": bessel.i0e,
    "special_i1": bessel.i1,
    "special_i1e": bessel.i1e,
    "special_log_ndtr": normal.log_ndtr,
    "special_modified_bessel_i0": bessel.i0,
    "special_modified_bessel_i1": bessel.i1,
    "special_modified_bessel_k0": bessel.k0,
    "special_modified_bessel_k1": bessel.k1,
    "special_ndtri": normal.ndtri,
    "special_scaled_modified_bessel_k0": bessel.k0e,
    "special_scaled_modified_bessel_k1": bessel.k1e,
    "special_spherical_bessel_j0": bessel.spherical_j0,
    "special_xlog1py": normal.xlog1py,
    "special_zeta": gamma.zeta,
    "xlogy": normal.xlogy,
} | {f"special_{name}": function for name, function in POLYNOMIALS.items()}
"""The scalar function of each operator; all are of floats."""


HEAVY.update((gamma.digamma, gamma.trigamma, gamma.zeta, gamma.polygamma, airy.airy_ai))
HEAVY.update((incomplete_gamma.igamma, incomplete_gamma.igammac))


LAST_FACTORIAL = 170
"""The last n whose factorial is a float64."""


def polygamma(call: StructuredCall) -> PlannedKernel:
    """Compute the n-th derivative of digamma: special cases for 0 and 1, by zeta from 2 on."""
    n = call.args["n"]
    if n < 2:
        return computed(call, gamma.trigamma if n else gamma.digamma, FLOAT)
    named = call.args | {"order": float, "factor": float}
    into = computed(
        call._replace(args=named, runtime=("self", "order", "factor")), gamma.polygamma, FLOAT
    ).into
    factorial = math.exp(math.lgamma(n + 1.0)) if n <= LAST_FACTORIAL else math.inf
    order, factor = float(n), (1.0 if n % 2 else -1.0) * factorial
    return PlannedKernel(lambda out, a: into(out, a, order, factor))


for _name, _function in FUNCTIONS.items():
    register_stub(f"{_name}_stub", "cuda", pointwise(_function, FLOAT))
register_stub("polygamma_stub", "cuda", polygamma)
