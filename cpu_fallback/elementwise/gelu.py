"""gelu of large contiguous float32: a compiled loop, or a chain of NumPy calls on blocks, with reused scratch arrays.

The calls of a chain are short, and threads that call NumPy contend for the GIL at each one. A second thread
pays only with long blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .pointwise_math import CUBIC, INVERSE_SQRT_2PI, NORMAL, SQRT_2_OVER_PI

Array = np.ndarray[Any, Any]

CHAINED_FROM = 1 << 14
"""Elements from which blocks are worth the slices."""
BLOCK = 1 << 16
"""Elements of a block for one thread: the arrays of a chain stay in the second-level cache."""
SHARED_FROM = 1 << 21
"""Elements from which several threads take part."""
SHARED_BLOCK = 1 << 18
"""Elements of a block then."""
PART = 1 << 13
"""Elements of a part of a compiled loop."""
PARTS = 64
"""Parts at most."""
WAKING_FROM = 1 << 15
"""Elements for which a compiled loop wakes threads."""


def _number(value: float) -> Array:
    return np.array(value, np.float32)


_NORMAL = [_number(c) for c in NORMAL]
_HALF, _ONE, _MINUS_HALF = _number(0.5), _number(1), _number(-0.5)
_DENSITY = _number(INVERSE_SQRT_2PI)
_SLOPE, _CUBED, _CUBED_SLOPE = (
    _number(SQRT_2_OVER_PI),
    _number(SQRT_2_OVER_PI * CUBIC),
    _number(3 * SQRT_2_OVER_PI * CUBIC),
)


def _normal_share(out: Array, square: Array, a: Array) -> None:
    """Compute out = (1 + erf(a / sqrt(2))) / 2 and square = a * a."""
    np.multiply(a, a, square)
    np.multiply(square, _NORMAL[-1], out)
    for coefficient in _NORMAL[-2:0:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, square, out)
    np.add(out, _NORMAL[0], out)
    np.multiply(out, a, out)
    np.tanh(out, out)
    np.add(out, _ONE, out)
    np.multiply(out, _HALF, out)


def by_erf(out: Array, scratch: Array, _: Array, a: Array) -> None:
    """Compute x * Phi(x)."""
    _normal_share(out, scratch, a)
    np.multiply(out, a, out)


def by_erf_backward(out: Array, scratch: Array, _: Array, grad: Array, a: Array) -> None:
    """Compute grad * (Phi(x) + x * phi(x))."""
    _normal_share(out, scratch, a)
    np.multiply(scratch, _MINUS_HALF, scratch)
    np.exp(scratch, scratch)
    np.multiply(scratch, _DENSITY, scratch)
    np.multiply(scratch, a, scratch)
    np.add(out, scratch, out)
    np.multiply(out, grad, out)


def by_tanh(out: Array, _: Array, __: Array, a: Array) -> None:
    """Compute x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    np.multiply(a, a, out)
    np.multiply(out, _CUBED, out)
    np.add(out, _SLOPE, out)
    np.multiply(out, a, out)
    np.tanh(out, out)
    np.add(out, _ONE, out)
    np.multiply(out, _HALF, out)
    np.multiply(out, a, out)


def by_tanh_backward(out: Array, scratch: Array, other: Array, grad: Array, a: Array) -> None:
    """Compute grad * ((1 + t) / 2 + x / 2 * (1 - t^2) * slope), with t the hyperbolic tangent."""
    np.multiply(a, a, scratch)
    np.multiply(scratch, _CUBED, out)
    np.add(out, _SLOPE, out)
    np.multiply(out, a, out)
    np.tanh(out, out)
    np.multiply(scratch, _CUBED_SLOPE, scratch)
    np.add(scratch, _SLOPE, scratch)
    np.multiply(scratch, a, scratch)
    np.multiply(scratch, _HALF, scratch)
    np.multiply(out, out, other)
    np.subtract(_ONE, other, other)
    np.multiply(scratch, other, scratch)
    np.add(out, _ONE, out)
    np.multiply(out, _HALF, out)
    np.add(out, scratch, out)
    np.multiply(out, grad, out)


CHAINS: dict[tuple[bool, bool], Callable[..., None]] = {
    (False, False): by_erf,
    (False, True): by_erf_backward,
    (True, False): by_tanh,
    (True, True): by_tanh_backward,
}
"""By whether tanh replaces erf, and whether it is the gradient: ``chain(out, kept, other, *operands)``."""


def chained(call: StructuredCall, backward: bool) -> PlannedKernel | None:
    """Return the blocked kernel, or None if it does not apply."""
    specs = [*call.outputs, *(a for a in call.args.values() if isinstance(a, TensorSpec))]
    numel, sizes = specs[0].numel, specs[0].sizes
    if numel <= CHAINED_FROM or not all(
        s.is_contiguous and s.sizes == sizes and s.np_dtype == np.float32 for s in specs
    ):
        return None
    approximate = call.args["approximate"]
    loop = _loop_now(backward, approximate)
    if loop is not None:
        return _compiled(loop, numel, len(specs), approximate)
    chosen(
        "a chain of polynomials, in blocks", "{} elements of float32 are more than {}", numel, CHAINED_FROM
    )
    chain = CHAINS[approximate == "tanh", backward]
    block = BLOCK if numel < SHARED_FROM else SHARED_BLOCK
    grain = numel if numel < SHARED_FROM else SHARED_BLOCK

    def into(out: Any, *arrays: Any) -> None:
        target = out.reshape(-1)
        lines = [(a.copy() if np.may_share_memory(out, a) else a).reshape(-1) for a in arrays]

        def some(first: int, last: int) -> None:
            scratch, other = np.empty((2, min(block, last - first)), np.float32)
            for start in range(first, last, block):
                end = min(start + block, last)
                count = end - start
                chain(target[start:end], scratch[:count], other[:count], *(line[start:end] for line in lines))

        parallel_for(0, numel, grain, some)

    return PlannedKernel(quietly(into))


def _loop_now(backward: bool, approximate: str) -> Loop | None:
    from .gelu_loop import gelu_loop

    return loop_now(gelu_loop, "gelu_backward" if backward else "gelu", approximate)


def _compiled(loop: Loop, numel: int, arrays: int, approximate: str) -> PlannedKernel:
    """Return the kernel of a compiled loop."""
    chosen("a compiled loop", "gelu by {} of {} elements is one pass", approximate, numel)
    step = max(PART, -(-numel // PARTS))
    parts = [
        np.array([min(step, numel - first), *([4 * first, 4] * arrays)]) for first in range(0, numel, step)
    ]
    run = shared_loop(loop, parts, Sharing.WAKING if numel >= WAKING_FROM else Sharing.AWAKE, None)

    def into(out: Array, *args: Array) -> None:
        run(out, *[a.copy() if np.may_share_memory(out, a) else a for a in args])

    return PlannedKernel(into, quiet=True, unshared=run)
