"""layer_norm and rms_norm of inputs that fit one block, and their gradients, with one call for each pass.

The math is that of `row_norm`. Row sums of the backward pass are matrix-vector products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..plain_numpy import np
from .moments import DEPTH

Array = np.ndarray[Any, Any]

MAX_ELEMENTS = 1 << 17
"""Maximum number of elements in all rows: they fit into the L2 cache, and threads would not pay."""
LONGEST = 1 << 10
"""The longest row: BLAS adds its products in a few partial sums."""


def fits(rows: int, n: int) -> bool:
    """Return True if one block holds the rows."""
    return 0 < n <= LONGEST and 0 < rows * n <= MAX_ELEMENTS


def forward(rows: int, n: int, dtype: Any, default: float) -> Callable[..., None]:
    """Return ``into(out, means, rstds, x, weight, bias, eps)``; `means` and `bias` may be None, without a mean."""
    shape, column, row = (rows, n), (rows, 1), (1, n)
    units = np.ones(n, dtype)
    wide = np.float64
    add, divide, multiply, sqrt, subtract = np.add, np.divide, np.multiply, np.sqrt, np.subtract

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
        out, rstds, x = out.reshape(shape), rstds.reshape(column), x.reshape(shape)
        if means is not None:
            means = means.reshape(column)
            mean = np.vecdot(x, units).astype(wide)
            divide(mean, n, mean)
            means[:, 0] = mean
            x = subtract(x, means, out)
        rstd = np.vecdot(x, x).astype(wide)
        divide(rstd, n, rstd)
        add(rstd, default if eps is None else eps, rstd)
        sqrt(rstd, rstd)
        divide(1, rstd, rstd)
        rstds[:, 0] = rstd
        multiply(x, rstds, out)
        if weight is not None:
            multiply(out, weight.reshape(row), out)
        if bias is not None:
            add(out, bias.reshape(row), out)

    return into


def _column_products(factors: Array, rows: Array) -> Array:
    """Compute factors @ rows, at most `DEPTH` rows at a time, in float64."""
    if len(rows) <= DEPTH:
        return factors.dot(rows)  # type: ignore[no-any-return]
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), DEPTH):
        total += factors[start : start + DEPTH].dot(rows[start : start + DEPTH])
    return total


def backward(rows: int, n: int, dtype: Any, centred: bool) -> Callable[..., None]:
    """Return ``into(to, to_weight, to_bias, grad, x, means, rstds, weight)``, with None for what there is not.

    The gradient of the input is that of `row_norm.rows_backward`.
    """
    shape, column, row = (rows, n), (rows, 1), (1, n)
    units, ones = np.ones(n, dtype), np.ones(rows, dtype)
    wide = np.float64
    add, multiply, subtract = np.add, np.multiply, np.subtract

    def into(
        out: Any, to_weight: Any, to_bias: Any, grad: Any, x: Any, means: Any, rstds: Any, weight: Any
    ) -> None:
        grad, x, rstds = grad.reshape(shape), x.reshape(shape), rstds.reshape(column)
        gap = x if means is None else subtract(x, means.reshape(column))
        products = multiply(grad, gap)
        if to_bias is not None:
            to_bias.reshape(-1)[:] = _column_products(ones, grad)
        if to_weight is not None:
            to_weight.reshape(-1)[:] = _column_products(rstds[:, 0], products)
        if out is None:
            return
        out = out.reshape(shape)
        factors = units if weight is None else weight.reshape(-1)
        rstd = rstds[:, 0].astype(wide)
        slope = products.dot(factors).astype(wide)
        slope /= -n
        slope *= rstd * rstd * rstd
        along = multiply(gap, slope.astype(dtype)[:, None], products)
        if centred:
            rest = grad.dot(factors).astype(wide)
            rest /= -n
            rest *= rstd
            add(along, rest.astype(dtype)[:, None], along)
        if weight is not None:
            multiply(grad, weight.reshape(row), out)
            grad = out
        multiply(grad, rstds, out)
        add(out, along, out)

    return into
