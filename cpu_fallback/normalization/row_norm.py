"""layer_norm and rms_norm: cache-sized blocks of rows, on several threads.

16-bit floats compute in float32. The variance is the mean of squared deviations from the mean, never a
difference of two sums. Gradients of weight and bias are summed over rows in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from . import compiled_gradients, compiled_rows, one_block
from .moments import column_sums, ones, row_dots

BLOCK = 1 << 19
"""Elements of a block: the third-level cache is near enough, and threads that come back to Python less often wait less
for each other."""
GRAIN = 1 << 19
"""Elements that a thread takes at least: waking one costs as much as computing some 100,000."""
LINE = 1 << 13
"""Elements to which a row of parameters is repeated: NumPy writes shorter ones out into a buffer, at twice the time."""
MIN_LINES = 8
"""So many of those, at least, make it worth while."""
EXPANDED = 32
"""Row length up to which a matmul broadcasts a row's statistics, which is faster than repeating them."""
SMALL = 1 << 16
"""Elements up to which that is done at once."""
STRIPS = 16
"""Into how many parts, at most, rows are split whose sums are held at once."""
STRIP_BYTES = 16 << 20
"""Memory of those sums."""


def epsilon(dtype: Any) -> float:
    """Return the default `eps` of `rms_norm`: the machine epsilon of the compute dtype."""
    return float(np.finfo(dtype).eps)


def _rows_of(spec: TensorSpec, lead: int) -> tuple[int, int]:
    return math.prod(spec.sizes[:lead]), math.prod(spec.sizes[lead:])


class Parameter:
    """A row of n values that is applied to blocks (rows, n) without gaps."""

    def __init__(self, array: Any, dtype: Any, rows: int) -> None:
        """`rows` is how many the largest block has."""
        self.row = array.reshape(1, -1).astype(dtype, copy=False)
        n = self.row.shape[1]
        self.repeats = -(-LINE // n) if n < LINE <= rows * n // MIN_LINES else 1
        if self.repeats > 1:
            self.line = np.tile(self.row, (1, self.repeats))

    def apply(self, operation: Any, block: Any, out: Any) -> None:
        """Compute out = operation(block, row) for each row."""
        if self.repeats == 1:
            operation(block, self.row, out)
            return
        whole = len(block) // self.repeats * self.repeats
        lines = (-1, self.line.shape[1])
        operation(block[:whole].reshape(lines), self.line, out[:whole].reshape(lines))
        if whole < len(block):
            operation(block[whole:], self.row, out[whole:])


def _parameter(array: Any, dtype: Any, rows: int) -> Parameter | None:
    return None if array is None else Parameter(array, dtype, rows)


def rows_forward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Compute layer_norm, or rms_norm, which subtracts no mean and has no bias."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["input"]
        rows, n = _rows_of(spec, call.extra["lead"])
        dtype = compute_np(spec.dtype)
        same = spec.np_dtype == dtype
        default = epsilon(dtype)
        units = ones(n, dtype)
        step = max(1, min(BLOCK // max(n, 1), rows))
        grain = max(1, GRAIN // max(n, 1))

        def compute(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
            eps = default if eps is None else eps
            scale, shift = _parameter(weight, dtype, step), _parameter(bias, dtype, step)
            x, out, rstds = x.reshape(rows, n), out.reshape(rows, n), rstds.reshape(rows, 1)
            if means is not None:
                means = means.reshape(rows, 1)
            if n == 0:
                rstds.fill(np.nan)
                if means is not None:
                    means.fill(0)
                return

            def normalise(part: slice) -> None:
                a = x[part] if same else x[part].astype(dtype)
                target = out[part] if same else np.empty(a.shape, dtype)
                if means is not None:
                    mean = (row_dots(a, units) / n).astype(dtype)[:, None]
                    a = np.subtract(a, mean, target)
                    means[part] = mean
                rstd = (1 / np.sqrt(row_dots(a, a) / n + eps)).astype(dtype)[:, None]
                np.multiply(a, rstd, target)
                if scale is not None:
                    scale.apply(np.multiply, target, target)
                if shift is not None:
                    shift.apply(np.add, target, target)
                rstds[part] = rstd
                if not same:
                    np.copyto(out[part], target, casting="unsafe")

            def some(first: int, last: int) -> None:
                for start in range(first, last, step):
                    normalise(slice(start, min(start + step, last)))

            parallel_for(0, rows, grain, some)

        if centred and same and 0 < n <= EXPANDED and 0 < rows * n <= SMALL:
            why = "{} rows of {} are at most {} elements, in rows of at most {}"
            chosen("short rows by products", why, rows, n, SMALL, EXPANDED)
            return _small_rows(rows, n, dtype)
        run = compute
        if compiled_rows.is_served(call, rows, n):
            why = "{} rows of {} are at least {} elements"
            chosen("a compiled loop over rows", why, rows, n, compiled_rows.COMPILE_THRESHOLD)
            run = compiled_rows.forward(call, rows, n, default)
        else:
            blocks = -(-rows // step) if rows else 0
            chosen("rows in blocks", "{} rows of {} make {} blocks that stay in the cache", rows, n, blocks)
            if same and one_block.fits(rows, n):
                run = one_block.forward(rows, n, dtype, default)
        if centred:
            return PlannedKernel(quietly(run, line=n))
        return PlannedKernel(
            quietly(lambda out, rstd, x, w, eps: run(out, None, rstd, x, w, None, eps), line=n)
        )

    return factory


def _small_rows(rows: int, n: int, dtype: Any) -> PlannedKernel:
    """Compute layer_norm of a few short rows; matmuls broadcast means and variances along the rows."""
    ones = np.ones((n, n), dtype)
    mean_of = np.full((n, n), 1 / n, dtype)
    count = np.array(n, dtype)
    is_exact = n & (n - 1) == 0
    known: dict[float, Any] = {}
    shape = (rows, n)
    add, divide, multiply, sqrt, subtract = np.add, np.divide, np.multiply, np.sqrt, np.subtract

    def normalised(x: Any, weight: Any, bias: Any, eps: float, means: Any = None, rstds: Any = None) -> Any:
        lines = x if x.shape == shape else x.reshape(shape)
        if is_exact:
            made = lines.dot(mean_of)
        else:
            made = lines.dot(ones)
            divide(made, count, made)
        if means is not None:
            means.reshape(-1)[:] = made[:, 0]
        subtract(lines, made, made)
        scale = multiply(made, made).dot(mean_of)
        added = known.get(eps)
        if added is None:
            known.clear()
            added = known[eps] = np.array(eps, dtype)
        add(scale, added, scale)
        sqrt(scale, scale)
        if rstds is not None:
            divide(1, scale[:, 0], rstds.reshape(-1))
        divide(made, scale, made)
        if weight is not None:
            multiply(made, weight.reshape(1, n), made)
        if bias is not None:
            add(made, bias.reshape(1, n), made)
        return made if x.shape == shape else made.reshape(x.shape)

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: float) -> None:
        np.copyto(out, normalised(x, weight, bias, eps, means, rstds))

    return PlannedKernel(into, quiet=True, first=normalised)


def rows_backward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of the gradients of input, weight and bias.

    With gap = x - mean and g = grad * weight, the input's gradient is rstd * g - gap * rstd**3 * mean(g *
    gap) - rstd * mean(g). The means are values for each row, computed in float64. The gradient takes three
    passes over a block.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["input"]
        rows, n = _rows_of(spec, call.extra["lead"])
        dtype = compute_np(spec.dtype)
        same = spec.np_dtype == dtype
        units = ones(n, dtype)
        step = max(1, min(BLOCK // max(n, 1), rows))
        parts = [slice(start, min(start + step, rows)) for start in range(0, rows, step)] if n else []
        # Strips depend on the sizes alone, so that the order of additions does not on the number of threads.
        maximum = max(1, min(STRIPS, STRIP_BYTES // (16 * max(n, 1))))
        each = max(1, -(-len(parts) // maximum), GRAIN // max(n * step, 1))
        strips = [parts[start : start + each] for start in range(0, len(parts), each)]

        def compute(
            out: Any, to_weight: Any, to_bias: Any, grad: Any, x: Any, means: Any, rstds: Any, weight: Any
        ) -> None:
            scale = _parameter(weight, dtype, step)
            grad, x, rstds = grad.reshape(rows, n), x.reshape(rows, n), rstds.reshape(rows, 1)
            means = None if means is None else means.reshape(rows, 1)
            if out is not None:
                out = out.reshape(rows, n)
            of_weight, of_bias = (
                None if t is None else np.zeros((len(strips), n)) for t in (to_weight, to_bias)
            )

            def differentiate(part: slice, strip: int) -> None:
                g = grad[part].astype(dtype, copy=False)
                rstd = rstds[part].astype(dtype, copy=False)
                gap = x[part].astype(dtype, copy=False)
                fresh = None
                if means is not None:
                    gap = fresh = np.subtract(gap, means[part].astype(dtype, copy=False))
                made = None
                if of_bias is not None:
                    of_bias[strip] += column_sums(g)
                if of_weight is not None:
                    made = np.multiply(g, gap)
                    made *= rstd
                    of_weight[strip] += column_sums(made)
                if out is None:
                    return
                if scale is not None:
                    made = np.empty(g.shape, dtype) if made is None else made
                    scale.apply(np.multiply, g, made)
                    g = made
                wide = rstds[part].astype(np.float64)
                slope = wide**3 * (row_dots(g, gap) / -n)[:, None]
                rest = (wide * (row_dots(g, units) / -n)[:, None]).astype(dtype) if centred else None
                gap = np.multiply(gap, slope.astype(dtype), fresh)
                target = out[part] if same else np.empty(gap.shape, dtype)
                np.multiply(g, rstd, target)
                target += gap
                if rest is not None:
                    target += rest
                if not same:
                    np.copyto(out[part], target, casting="unsafe")

            def some(first: int, last: int) -> None:
                for strip in range(first, last):
                    for part in strips[strip]:
                        differentiate(part, strip)

            parallel_for(0, len(strips), 1, some)
            for target, sums in ((to_weight, of_weight), (to_bias, of_bias)):
                if target is not None:
                    np.copyto(target, sums.sum(0).reshape(target.shape), casting="unsafe")

        run = compute
        if compiled_gradients.are_served(call):
            chosen(
                "a compiled loop over rows",
                "{} rows of {} are at least {} elements",
                rows,
                n,
                compiled_gradients.COMPILE_THRESHOLD,
            )
            run = compiled_gradients.backward(rows, n, dtype, centred)
        elif same and one_block.fits(rows, n) and call.args["rstd"].dtype is spec.dtype:
            run = one_block.backward(rows, n, dtype, centred)
        return PlannedKernel(quietly(masked(run, centred), line=n))

    return factory


def masked(compute: Callable[..., None], centred: bool) -> Callable[..., None]:
    """`compute`, with None for the outputs and statistics that the operator does not have."""
    if centred:
        return compute
    return lambda out, to_weight, grad, x, rstd, weight: compute(
        out, to_weight, None, grad, x, None, rstd, weight
    )


FACTORIES = {
    "native_layer_norm_stub": rows_forward(True),
    "native_layer_norm_backward_stub": rows_backward(True),
    "fused_rms_norm_stub": rows_forward(False),
    "fused_rms_norm_backward_stub": rows_backward(False),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cpu", _factory)
