"""Pointwise kernels: a row for each operator, the function of arrays that computes it in the common dtype.

A row may name the kinds of dtype that the kernel has (``f`` floats, ``c`` complex, ``i`` and ``u`` integers,
``b`` bool); others are refused as PyTorch refuses them. Operators whose function depends on the call, such as
`clamp` with one bound, have a factory below the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from numpy._core.umath import clip  # the ufunc under np.clip, which keeps NaN and goes over the data once

from ...dispatch.structured.dtype_kinds import ANY, BITS, FLOAT, INEXACT, INTEGER, NUMBERS, REAL, REAL_NUMBERS
from ...dispatch.structured.exponent_check import exponent_check
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...dispatch.structured.supported_dtypes import kernel_name
from ...runtime.scalar_type import PACKED, bfloat16, finfo, float16, is_only_stored, registered
from ...runtime.tensor_spec import TensorSpec
from ..blocks import SHARED_BYTES, Blocks, part_of
from ..plain_numpy import copyto, np, putmask
from ..plain_numpy import where as choice
from ..special.float32_functions import FUNCTIONS, for_many
from ..widen import NARROW, comparable_np, compute_np
from . import number_representation as representation
from . import pointwise_math as m
from . import wide_kernels
from .elementwise import SLOW, planned
from .gelu import CHAINED_FROM, chained
from .selection import SMALL, selected
from .vector_passes import LONG, PASSES, Passes

OVERWRITTEN = 1 << 12
"""Elements up to which NumPy overwrites those under a mask sooner than it multiplies all of them by the mask."""
AT_ONCE = 1 << 17
"""Elements up to which a gradient under a mask is made in one piece: its temporaries stay in the cache."""

Array = np.ndarray[Any, Any]
Row = tuple[Callable[..., Any] | str, str]

OPERATORS: dict[str, Row] = {
    "_frexp_exponent": (representation.exponent, FLOAT),
    "_frexp_mantissa": (representation.mantissa, FLOAT),
    "abs": (np.absolute, NUMBERS),
    "acos": (np.arccos, INEXACT),
    "acosh": (np.arccosh, INEXACT),
    "add": (m.add_scaled, ANY),
    "addcdiv": (m.addcdiv, INEXACT),
    "addcmul": (m.addcmul, NUMBERS),
    "asin": (np.arcsin, INEXACT),
    "asinh": (np.arcsinh, INEXACT),
    "atan": (np.arctan, INEXACT),
    "atan2": (np.arctan2, FLOAT),
    "atanh": (np.arctanh, INEXACT),
    "bitwise_and": (np.bitwise_and, BITS),
    "bitwise_left_shift": (np.left_shift, INTEGER),
    "bitwise_not": (np.invert, BITS),
    "bitwise_or": (np.bitwise_or, BITS),
    "bitwise_right_shift": (np.right_shift, INTEGER),
    "bitwise_xor": (np.bitwise_xor, BITS),
    "_conj_physical": (m.conjugate, ANY),
    "copysign": (np.copysign, FLOAT),
    "cos": (np.cos, INEXACT),
    "cosh": (np.cosh, INEXACT),
    "div": (np.divide, INEXACT),
    "erf": (m.erf, FLOAT),
    "erfc": ("scipy.special:erfc", FLOAT),
    "exp": (np.exp, INEXACT),
    "exp2": (np.exp2, INEXACT),
    "expm1": (np.expm1, INEXACT),
    "fmax": (np.fmax, REAL),
    "fmin": (np.fmin, REAL),
    "frac": (representation.frac, FLOAT),
    "gcd": (np.gcd, INTEGER),
    "ge": (np.greater_equal, REAL),
    "gt": (np.greater, REAL),
    "heaviside": (representation.heaviside, REAL),
    "hypot": (np.hypot, FLOAT),
    "le": (np.less_equal, REAL),
    "lcm": (representation.least_multiple, INTEGER),
    "leaky_relu_backward": (m.leaky_relu_backward, FLOAT),
    "lerp": (m.lerp, INEXACT),
    "log": (np.log, INEXACT),
    "logit": (representation.logit, FLOAT),
    "logit_backward": (representation.logit_backward, FLOAT),
    "log10": (m.log10, INEXACT),
    "log1p": (m.log1p, INEXACT),
    "log2": (np.log2, INEXACT),
    "logaddexp": (representation.logaddexp, INEXACT),
    "logaddexp2": (representation.logaddexp2, FLOAT),
    "logical_and": (np.logical_and, ANY),
    "logical_not": (np.logical_not, ANY),
    "logical_or": (np.logical_or, ANY),
    "logical_xor": (np.logical_xor, ANY),
    "lt": (np.less, REAL),
    "maximum": (np.maximum, REAL),
    "minimum": (np.minimum, REAL),
    "mul": (np.multiply, ANY),
    "reciprocal": (m.reciprocal, INEXACT),
    "rsqrt": (m.rsqrt, INEXACT),
    "rsub": (m.rsub, NUMBERS),
    "sgn": (representation.sgn, ANY),
    "sigmoid_backward": (m.sigmoid_backward, INEXACT),
    "sign": (representation.sgn, REAL),
    "signbit": (representation.signbit, REAL),
    "silu_backward": (m.silu_backward, INEXACT),
    "sin": (np.sin, INEXACT),
    "sinc": (representation.sinc, INEXACT),
    "sinh": (np.sinh, INEXACT),
    "softplus_backward": (m.softplus_backward, FLOAT),
    "sqrt": (np.sqrt, INEXACT),
    "sub": (m.sub_scaled, NUMBERS),
    "tan": (np.tan, INEXACT),
    "tanh": (np.tanh, INEXACT),
    "tanh_backward": (m.tanh_backward, INEXACT),
    "threshold_backward": (m.threshold_backward, REAL),
}

UNSCALED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "addcdiv": m.addcdiv_unscaled,
    "addcmul": m.addcmul_unscaled,
    "rsub": m.rsub_unscaled,
    "sub": np.subtract,
}
"""The function of an operator whose scale (``alpha``, ``value``) is at its default of 1."""

ROUNDING: dict[str, Callable[..., Any]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "trunc": np.trunc,
}
"""Rounding of floats; integers stay as they are."""

DIVIDING: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "floor_divide": (m.divide_floor, m.divide_floor_integers, np.floor_divide),
    "fmod": (np.fmod, m.fmod_integers, np.fmod),
    "remainder": (m.remainder, m.remainder_integers, np.remainder),
    "trunc_divide": (m.divide_trunc, m.divide_trunc_integers, np.floor_divide),
}
"""Division and its remainders: of floats, of signed integers, and of unsigned ones with the zeros checked."""


COMPARISONS = frozenset(["bitwise_xor", "ge", "gt", "le", "logical_xor", "lt"])
"""Functions for which NumPy compares the bytes of bools."""


def of_truth(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a comparison of bools in which every byte other than 0 is True.

    Views of other dtypes have them. NumPy's loops over two arrays respect them, but those over an array and
    one element compare bytes.
    """

    def compare(a: Array, b: Array, *out: Array) -> Array:
        if a.size > 1 and a.shape == b.shape and 0 not in a.strides and 0 not in b.strides:
            return function(a, b, *out)
        return function(np.not_equal(a, False), np.not_equal(b, False), *out)

    return compare


def row(stub: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a table row."""

    def factory(call: StructuredCall) -> PlannedKernel:
        function, kinds = OPERATORS[stub]
        check_kind(call, kinds)
        if stub in UNSCALED and "alpha" not in call.runtime and "value" not in call.runtime:
            function = UNSCALED[stub]
        if stub in COMPARISONS and compute_np(call.common_dtype).kind == "b":
            return planned(call, of_truth(function))
        return wide_kernels.for_many(stub, call, by_passes(call, stub, loaded(function)))

    return factory


def by_passes(call: StructuredCall, stub: str, function: Callable[..., Any]) -> PlannedKernel:
    """Return the kernel of a function, or of its vector passes if there are many elements."""
    passes = PASSES.get(stub) if stub not in FUNCTIONS else Passes(for_many(stub), "f")
    common = call.common_dtype
    if passes is None or compute_np(common).char not in passes.kinds:
        return planned(call, function)
    if call.outputs[0].numel > LONG:
        return planned(call, passes.function)
    kernel = planned(call, function)
    return kernel._replace(any_shape=min(kernel.any_shape, LONG))


def pointwise(function: Callable[..., Any]) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a function of arrays that serves every dtype."""
    return lambda call: planned(call, function)


def check_kind(call: StructuredCall, kinds: str, operator: str | None = None) -> None:
    """Refuse a common dtype that a kernel does not have; `operator` is what it is called by, if not the call's name."""
    common = call.common_dtype
    if compute_np(common).kind not in kinds:
        kernel = call.kernel_name() if operator is None else kernel_name(operator, call.device.type)
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{common.scalar_name}'")


def loaded(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return a function; import one given as ``module:name`` (SciPy's) at its first use."""
    if isinstance(function, str):
        module, _, name = function.partition(":")
        result: Callable[..., Any] = getattr(import_module(module), name)
        SLOW.add(result)
        return result
    return function


def rounding(name: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a row of `ROUNDING`."""

    def factory(call: StructuredCall) -> PlannedKernel:
        exact = call.common_dtype.is_integral
        return planned(call, np.positive if exact else ROUNDING[name])

    return factory


def dividing(name: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a row of `DIVIDING`; integers check for zero divisors first."""

    def factory(call: StructuredCall) -> PlannedKernel:
        check_kind(call, REAL_NUMBERS, name if name.endswith("_divide") else None)
        kind = compute_np(call.common_dtype).kind
        floats, integers, unsigned = DIVIDING[name]
        if kind == "f":
            return by_passes(call, name, floats)
        return planned(call, m.checked(integers if kind == "i" else unsigned))

    return factory


def div_mode(call: StructuredCall) -> PlannedKernel:
    """Divide by rounding mode."""
    mode = call.args["rounding_mode"]
    if mode is None:
        return planned(call, np.divide)
    common, other = call.common_dtype, call.args["other"]
    if mode == "trunc" and common in NARROW and isinstance(other, TensorSpec) and other.ndim:
        return planned(call, m.divide_trunc_in(common.np))
    return dividing("floor_divide" if mode == "floor" else "trunc_divide")(call)


def relu(call: StructuredCall) -> PlannedKernel:
    """Compute max(self, 0), NaN kept; the zero is made once."""
    common = call.common_dtype
    spec = call.args["self"]
    np_dtype = compute_np(common)
    maximum = np.maximum
    zero = np.zeros((), np_dtype)
    if common in NARROW or call.outputs[0].dtype is not spec.dtype:
        if spec.dtype is call.outputs[0].dtype and spec.numel > ZEROS and common in (float16, bfloat16):
            return PlannedKernel(_narrow_relu(call))
        # NumPy's loop is quicker over two whole arrays than over one and a number.
        kernel = planned(call, lambda a: maximum(zero if a.size < ZEROS else np.zeros_like(a), a))
        # A plan of few elements must not serve many: of a negative zero they make different ones.
        return kernel._replace(any_shape=min(kernel.any_shape, ZEROS))
    if not spec.is_contiguous:
        return PlannedKernel(lambda out, a: maximum(zero, a, out=out))
    if spec.numel > ZEROS:
        return PlannedKernel(_large_relu(call, np_dtype))

    def sized(sizes: tuple[int, ...]) -> PlannedKernel:
        zero = np.zeros(sizes, np_dtype)
        return PlannedKernel(lambda out, a: maximum(zero, a, out=out), partial(maximum, zero))

    return sized(spec.sizes)._replace(any_shape=ZEROS, sized=sized)


ZEROS = 1 << 14
"""The largest array of zeros that a plan of relu keeps."""


def _narrow_relu(call: StructuredCall) -> Callable[..., None]:
    """Return relu of 16-bit floats on their bits: a set sign clears all bits, except those of NaN."""
    infinity = np.array(np.inf, call.outputs[0].np_dtype).view(np.int16)[()]
    magnitude_bits = np.int16(0x7FFF)

    def step(out: Any, a: Any) -> None:
        bits = a.view(np.int16)
        mask = np.invert(bits >> 15)
        magnitude = bits & magnitude_bits
        if magnitude.max() > infinity:
            mask |= -(magnitude > infinity).astype(np.int16)
        np.bitwise_and(bits, mask, out.view(np.int16))

    blocks = Blocks(call.outputs[0], [call.args["self"]])
    return lambda out, a: blocks.run(step, out, a)


def _large_relu(call: StructuredCall, np_dtype: Any) -> Callable[..., None]:
    """Return the relu of contiguous arrays: integers compare line by line with a line of zeros that stays in the
    cache.

    np.clip's ufunc is faster than np.maximum's for floats: its loop has no branches for NaN.
    """
    out_spec, spec = call.outputs[0], call.args["self"]
    zeros = np.zeros(ZEROS, np_dtype)
    maximum = np.maximum
    zero, infinity = zeros[0, ...], np.array(np.inf, np_dtype) if np_dtype.kind == "f" else None

    def clipped(out: Any, a: Any) -> None:
        clip(a, zero, infinity, out=out)

    def step(out: Any, a: Any) -> None:
        whole = a.size // ZEROS * ZEROS
        maximum(zeros, a[:whole].reshape(-1, ZEROS), out=out[:whole].reshape(-1, ZEROS))
        if whole < a.size:
            maximum(zeros[: a.size - whole], a[whole:], out=out[whole:])

    shared = 2 * spec.nbytes >= SHARED_BYTES
    blocks = Blocks(out_spec, [spec], part_of(spec.numel) if shared else spec.numel)
    if infinity is not None:
        return clipped if blocks.flat and not shared else lambda out, a: blocks.run(clipped, out, a)
    if not blocks.flat:
        return lambda out, a: blocks.run(lambda out, a: maximum(zero, a, out=out), out, a)
    return lambda out, a: blocks.run(step, out, a)


def pow_(call: StructuredCall) -> PlannedKernel:
    """Compute self ** exponent; small constant exponents become products, roots and reciprocals."""
    common = call.common_dtype
    kind = compute_np(common).kind
    exponent = call.args["exponent"]
    constant = isinstance(exponent, type)
    if kind == "b":
        return planned(call, representation.truth_power)
    if kind not in "iu":
        if constant and kind == "c" and issubclass(exponent, (int, float)):
            return planned(call, m.pow_complex_constant)
        quick = constant and kind == "f" and common not in NARROW
        return planned(call, m.pow_constant if quick else np.power)
    if not constant:
        return planned(call, m.pow_integers)
    kernel = planned(call, np.power)
    into, fresh = kernel.into, kernel.fresh
    check = exponent_check(compute_np(common), common.name)
    return PlannedKernel(check(into), None if fresh is None else check(fresh), any_shape=kernel.any_shape)


def clamp(call: StructuredCall) -> PlannedKernel:
    """Clamp to both bounds, or to the given one."""
    low = call.args.get("min") is not None
    high = call.args.get("max") is not None
    if not isinstance(call.args.get("min", call.args.get("max")), TensorSpec):
        check_kind(
            call, REAL_NUMBERS, "clamp_scalar" if low and high else f"clamp_{'min' if low else 'max'}_scalar"
        )
    elif low and high:
        check_kind(call, REAL_NUMBERS)
    if low and high:
        kernel = planned(call, clip)
        if not any(
            isinstance(call.args[name], TensorSpec) and call.args[name].ndim for name in ("min", "max")
        ):
            return kernel
        # With scalars the loop is vectorized; with arrays it goes element by element.
        if call.outputs[0].numel > LONG:
            return planned(call, m.clamp_between)
        return kernel._replace(any_shape=min(kernel.any_shape, LONG))
    present_names = tuple(name for name in call.runtime if call.args[name] is not None)
    kernel = planned(call._replace(runtime=present_names), np.maximum if low else np.minimum)
    if present_names == call.runtime:
        return kernel
    absent = call.runtime.index("max" if low else "min")
    return without_argument(kernel, absent)


def without_argument(kernel: PlannedKernel, position: int) -> PlannedKernel:
    """Return a kernel of (self, bound) that is called with (self, min, max), one of which is None."""
    into, fresh = kernel.into, kernel.fresh
    present = 3 - position
    return PlannedKernel(
        lambda out, *values: into(out, values[0], values[present]),
        None if fresh is None else lambda *values: fresh(values[0], values[present]),
        any_shape=kernel.any_shape,
    )


def overwritten(condition: Any, a: Any, b: Any) -> Any:
    """`choice` between arrays of one shape without gaps, in two thirds of its time."""
    made = b.copy()
    putmask(made, condition, a)
    return made


def where(call: StructuredCall) -> PlannedKernel:
    """Select `self` where the condition holds, else `other`."""
    spec = call.outputs[0]
    choose = selected if spec.numel > SMALL else choice
    chosen_from = [call.args[name] for name in call.runtime]
    if (
        choose is choice
        and all(isinstance(each, TensorSpec) and each.is_contiguous for each in chosen_from)
        and all(each.dtype is spec.dtype for each in chosen_from[1:])
        and chosen_from[0].dtype.name == "bool"
        and spec.is_contiguous
    ):
        if all(each.sizes == spec.sizes for each in chosen_from):
            return PlannedKernel(lambda out, *args: copyto(out, overwritten(*args)), overwritten)
        return PlannedKernel(lambda out, *args: copyto(out, choice(*args)), choice)
    kernel = planned(call, choose, call.extra["common_dtype"].np, ("condition",))
    return kernel._replace(any_shape=min(kernel.any_shape, SMALL)) if choose is choice else kernel


def threshold_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient: `grad_output` if the input exceeds the threshold, else 0."""
    check_kind(call, REAL)
    spec = call.outputs[0]
    if spec.numel > AT_ONCE or any(
        each.dtype is not spec.dtype or each.sizes != spec.sizes or not each.is_contiguous
        for each in (call.args["grad_output"], call.args["self"])
    ):
        return planned(call, m.threshold_backward)
    if spec.numel > OVERWRITTEN:
        if spec.dtype.name not in ("float32", "float64"):
            return planned(call, m.threshold_backward)
        return PlannedKernel(m.threshold_backward_into, quiet=True)
    zero = np.zeros((), spec.np_dtype)

    def fresh(grad: Any, a: Any, threshold: Any) -> Any:
        made = grad.copy()
        putmask(made, np.less_equal(a, threshold), zero)
        return made

    return PlannedKernel(lambda out, *args: copyto(out, fresh(*args)), fresh, quiet=True)


def equality(function: np.ufunc) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``eq`` and ``ne``, which also serve dtypes without arithmetic."""

    def factory(call: StructuredCall) -> PlannedKernel:
        common = call.common_dtype
        if common is PACKED:
            if any(isinstance(value, type) for value in call.args.values()):
                raise call.refuse(call.outputs[0].replace(dtype=PACKED))
            return planned(call, lambda a, b, *out: function(a.view(np.uint8), b.view(np.uint8), *out))
        if common in registered or is_only_stored(common):
            return planned(call, function, comparable_np(common))
        return planned(call, of_truth(function) if compute_np(common).kind == "b" else function)

    return factory


def sigmoid(call: StructuredCall) -> PlannedKernel:
    """Compute the logistic function; its constant 1 is made once for a dtype."""
    check_kind(call, INEXACT)
    return planned(call, m.sigmoid_in(compute_np(call.common_dtype), negative_of(call)))


def negative_of(call: StructuredCall) -> Callable[..., Any]:
    """Return NumPy's negative where it is right: an operand without gaps, or whose gaps the output does not share."""
    operand, out = call.args["self"], call.outputs[0]
    as_out = operand.strides == out.strides and operand.sizes == out.sizes
    is_safe = operand.is_contiguous or (as_out and operand.is_dense())
    return np.negative if is_safe else m.negative  # type: ignore[no-any-return]


def neg(call: StructuredCall) -> PlannedKernel:
    """Plan out = -a."""
    check_kind(call, NUMBERS)
    return planned(call, negative_of(call))


def gelu(call: StructuredCall) -> PlannedKernel:
    """Compute x * Phi(x), by erf or by tanh."""
    check_kind(call, FLOAT)
    if (kernel := chained(call, False)) is not None:
        return kernel
    return _of_few(planned(call, m.gelu_tanh if call.args["approximate"] == "tanh" else m.gelu))


def gelu_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of gelu, by erf or by tanh."""
    check_kind(call, FLOAT)
    if (kernel := chained(call, True)) is not None:
        return kernel
    is_tanh = call.args["approximate"] == "tanh"
    return _of_few(planned(call, m.gelu_tanh_backward if is_tanh else m.gelu_backward))


def _of_few(kernel: PlannedKernel) -> PlannedKernel:
    """Limit a plan of few elements to sizes below `CHAINED_FROM`, since a chain rounds differently."""
    return kernel._replace(any_shape=min(kernel.any_shape, CHAINED_FROM))


def round_decimals(call: StructuredCall) -> PlannedKernel:
    """Plan rounding to decimal places, with ties to even."""
    check_kind(call, FLOAT)
    return planned(call, m.round_to(call.extra["power"], call.args["decimals"] >= 0))


def nextafter(call: StructuredCall) -> PlannedKernel:
    """Return the neighbor of a number in its own dtype, also for 16-bit floats."""
    common = call.common_dtype
    if common in NARROW:
        return planned(call, representation.nextafter_narrow, common.np)
    return by_passes(call, "nextafter", np.nextafter)


def nan_to_num(call: StructuredCall) -> PlannedKernel:
    """Replace NaN and infinities by numbers; integers stay as they are."""
    common = call.common_dtype
    if not (common.is_floating_point or common.is_complex):
        return planned(call, representation.unchanged)
    limits = finfo(common.to_real() if common.is_complex else common)
    return planned(call, representation.finite_within(limits.min, limits.max))


FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "clamp": clamp,
    "clamp_max": clamp,
    "clamp_min": clamp,
    "div_mode": div_mode,
    "eq": equality(np.equal),
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "nan_to_num": nan_to_num,
    "ne": equality(np.not_equal),
    "neg": neg,
    "nextafter": nextafter,
    "pow": pow_,
    "relu": relu,
    "round_decimals": round_decimals,
    "sigmoid": sigmoid,
    "threshold_backward": threshold_backward,
    "where": where,
}
FACTORIES |= {name: rounding(name) for name in ROUNDING}
FACTORIES |= {name: dividing(name) for name in ("floor_divide", "fmod", "remainder")}
FACTORIES |= {name: row(name) for name in OPERATORS if name not in FACTORIES}

for _name, _factory in FACTORIES.items():
    register_stub(f"{_name}_stub", "cpu", _factory)
