"""Special functions by SciPy's names, of tensors: what SciPy calls for a namespace that has `special`.

It is no extension of the standard yet (https://github.com/data-apis/array-api/issues/725). SciPy looks for one all the
same, and computes what it does not find on the host, where tensors on CUDA are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import special as _special
from ..dispatch.generated.functions import full as _full
from ..dispatch.tensor import Tensor as _Tensor
from ..special import bessel_j0 as j0
from ..special import bessel_j1 as j1
from ..special import bessel_y0 as y0
from ..special import bessel_y1 as y1
from ..special import (
    digamma,
    entr,
    erf,
    erfc,
    erfcx,
    erfinv,
    exp2,
    expit,
    expm1,
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    log1p,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    psi,
)
from ..special import modified_bessel_k0 as k0
from ..special import modified_bessel_k1 as k1
from ..special import scaled_modified_bessel_k0 as k0e
from ..special import scaled_modified_bessel_k1 as k1e

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "log1p",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "psi",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]


def _with_numbers(
    function: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor | float, Tensor | float], Tensor]:
    """Wrap a function of two tensors so that one of them may be a Python number."""

    def of_both(x: Tensor | float, y: Tensor | float, /) -> Tensor:
        if isinstance(x, _Tensor):
            return function(x, y if isinstance(y, _Tensor) else _full((), y, dtype=x.dtype, device=x.device))
        if isinstance(y, _Tensor):
            return function(_full((), x, dtype=y.dtype, device=y.device), y)
        raise TypeError(
            f"{function.__name__}: expected a tensor for x or y, but got {type(x).__name__} and {type(y).__name__}"
        )

    of_both.__name__ = of_both.__qualname__ = function.__name__
    of_both.__doc__ = f"`tt.special.{function.__name__}`, where one of the arguments may be a number."
    return of_both


gammainc = _with_numbers(_special.gammainc)
gammaincc = _with_numbers(_special.gammaincc)
xlog1py = _with_numbers(_special.xlog1py)
xlogy = _with_numbers(_special.xlogy)
zeta = _with_numbers(_special.zeta)
