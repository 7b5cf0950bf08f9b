"""Pointwise operators: a line for each, with the function that computes it (see `pointwise_functions.py`).

A function gets its operands in the compute type of the call's common dtype (float32 for 16-bit and 8-bit
floats). The kernel converts its result to the output's dtype.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ...dispatch.scalars import ROUNDED_IN_WHERE, element_of, fitting_number, readable
from ...dispatch.structured.complex_half import SCALES
from ...dispatch.structured.dtype_kinds import BITS, FLOAT, INTEGER, REAL, REAL_NUMBERS
from ...dispatch.structured.exponent_check import exponent_check
from ...dispatch.structured.stub import (
    ElementFunction,
    PlannedKernel,
    StructuredCall,
    register_stub,
    with_defaults,
)
from ...dispatch.structured.supported_dtypes import ROUNDING_NUMBERS
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import EXPONENTS, bool_, complex32, finfo, float32
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type, triton_type
from . import complex_functions, exponents
from . import narrow_functions as narrow
from . import number_representation as representation
from . import pointwise_functions as f
from .elementwise import HEAVY, check_dtypes, complex_elementwise, elementwise
from .pairs import part_type

FUNCTIONS: dict[str, tuple[Any, str]] = {
    "_frexp_exponent": (representation.frexp_exponent, FLOAT),
    "_frexp_mantissa": (representation.frexp_mantissa, FLOAT),
    "abs": (f.abs, REAL),
    "acos": (f.acos, FLOAT),
    "acosh": (f.acosh, FLOAT),
    "asin": (f.asin, FLOAT),
    "asinh": (f.asinh, FLOAT),
    "atan": (f.atan, FLOAT),
    "atan2": (f.atan2, FLOAT),
    "atanh": (f.atanh, FLOAT),
    "bitwise_and": (f.bitwise_and, BITS),
    "bitwise_left_shift": (f.left_shift, INTEGER),
    "bitwise_not": (f.bitwise_not, BITS),
    "bitwise_or": (f.bitwise_or, BITS),
    "bitwise_right_shift": (f.right_shift, INTEGER),
    "bitwise_xor": (f.bitwise_xor, BITS),
    "_conj_physical": (f.conjugate, REAL),
    "copysign": (representation.copysign, FLOAT),
    "cos": (f.cos, FLOAT),
    "cosh": (f.cosh, FLOAT),
    "div": (f.divide, FLOAT),
    "erf": (f.erf, FLOAT),
    "erfc": (f.erfc, FLOAT),
    "exp": (f.exp, FLOAT),
    "exp2": (f.exp2, FLOAT),
    "expm1": (f.expm1, FLOAT),
    "floor_divide": (f.floor_divide, REAL_NUMBERS),
    "fmax": (f.fmax, REAL),
    "fmin": (f.fmin, REAL),
    "fmod": (f.fmod, REAL_NUMBERS),
    "frac": (representation.frac, FLOAT),
    "gcd": (representation.gcd, INTEGER),
    "ge": (f.ge, REAL),
    "gt": (f.gt, REAL),
    "heaviside": (representation.heaviside, REAL),
    "hypot": (representation.hypot, FLOAT),
    "lcm": (representation.lcm, INTEGER),
    "le": (f.le, REAL),
    "leaky_relu": (f.leaky_relu, FLOAT),
    "leaky_relu_backward": (f.leaky_relu_backward, FLOAT),
    "lerp": (f.lerp, FLOAT),
    "log": (f.log, FLOAT),
    "log10": (f.log10, FLOAT),
    "log1p": (f.log1p, FLOAT),
    "log2": (f.log2, FLOAT),
    "logaddexp": (representation.logaddexp, FLOAT),
    "logaddexp2": (representation.logaddexp2, FLOAT),
    "logical_and": (f.logical_and, REAL),
    "logical_not": (f.logical_not, REAL),
    "logical_or": (f.logical_or, REAL),
    "logical_xor": (f.logical_xor, REAL),
    "lt": (f.lt, REAL),
    "maximum": (f.maximum, REAL),
    "minimum": (f.minimum, REAL),
    "mul": (f.mul, REAL),
    "neg": (f.neg, REAL_NUMBERS),
    "reciprocal": (f.reciprocal, FLOAT),
    "relu": (f.relu, REAL_NUMBERS),
    "remainder": (f.remainder, REAL_NUMBERS),
    "rsqrt": (f.rsqrt, FLOAT),
    "sgn": (f.sgn, REAL),
    "sigmoid": (f.sigmoid, FLOAT),
    "sigmoid_backward": (f.sigmoid_backward, FLOAT),
    "sign": (f.sign, REAL),
    "signbit": (representation.signbit, REAL),
    "silu": (f.silu, FLOAT),
    "silu_backward": (f.silu_backward, FLOAT),
    "sin": (f.sin, FLOAT),
    "sinc": (representation.sinc, FLOAT),
    "sinh": (f.sinh, FLOAT),
    "softplus_backward": (f.softplus_backward, FLOAT),
    "sqrt": (f.sqrt, FLOAT),
    "tan": (f.tan, FLOAT),
    "tanh": (f.tanh, FLOAT),
    "tanh_backward": (f.tanh_backward, FLOAT),
    "threshold_backward": (f.threshold_backward, REAL),
}
"""The function of each operator, and the kinds of dtype that it has: bool, signed and unsigned integers, floats."""

HEAVY.update((representation.gcd, representation.lcm))

SCALED: dict[str, tuple[Any, Any, str]] = {
    "add": (f.add, f.add_scaled, REAL),
    "addcdiv": (f.addcdiv, f.addcdiv_scaled, FLOAT),
    "addcmul": (f.addcmul, f.addcmul_scaled, REAL_NUMBERS),
    "rsub": (f.rsub, f.rsub_scaled, REAL_NUMBERS),
    "sub": (f.sub, f.sub_scaled, REAL_NUMBERS),
}
"""Operators with a scale, which is a runtime argument only where it is not 1: the function without and with it."""

ROUNDING: dict[str, Any] = {"ceil": f.ceil, "floor": f.floor, "round": f.round, "trunc": f.trunc}
"""Rounding of floats; integers stay as they are."""


NARROW: dict[Any, Any] = {
    f.exp: narrow.exp,
    f.gelu: narrow.gelu,
    f.gelu_tanh: narrow.gelu_tanh,
    f.sigmoid: narrow.sigmoid,
    f.silu: narrow.silu,
    f.tanh: narrow.tanh,
}
"""Replacements of functions if operands and result are float16 or bfloat16."""
TRUNCATED_IN = {"float16": narrow.trunc_divide_half, "bfloat16": narrow.trunc_divide_bfloat16}
"""By the dtype of two tensors, their quotient rounded to it and then to a whole number."""


COMPLEX: dict[Any, Any] = {
    getattr(f, name): getattr(complex_functions, name)
    for name in (
        "acos", "acosh", "add", "add_scaled", "addcdiv", "addcdiv_scaled", "addcmul", "addcmul_scaled", "asin",
        "asinh", "atan", "atanh", "conjugate", "cos", "cosh", "divide", "exp", "exp2", "expm1", "lerp", "log", "log10",
        "log1p", "log2", "mul", "neg", "pow", "reciprocal", "rsqrt", "rsub", "rsub_scaled", "sgn", "sigmoid",
        "sigmoid_backward", "silu", "silu_backward", "sin", "sinh", "sqrt", "sub", "sub_scaled", "tan", "tanh",
        "tanh_backward", "where",
    )
} | {
    f.pow_number: complex_functions.pow,
    representation.logaddexp: complex_functions.logaddexp,
    representation.nan_to_num: complex_functions.nan_to_num,
    representation.sinc: complex_functions.sinc,
}  # fmt: skip
"""Replacements of functions if the common dtype is complex, which also return complex numbers."""

REAL_OF_COMPLEX: dict[Any, Any] = {
    getattr(f, name): getattr(complex_functions, name)
    for name in ("abs", "eq", "logical_and", "logical_not", "logical_or", "logical_xor", "ne")
}
"""The same for functions whose result is real."""


def kind_of(dtype: ScalarType) -> str:
    """Return the kind of a dtype: ``b``, ``i``, ``u``, ``f`` or ``c``."""
    if dtype.is_integral:
        return "i" if dtype.is_signed else "u"
    return "f" if dtype.is_floating_point else "c" if dtype.is_complex else "b"


def computed(
    call: StructuredCall, function: Any, kinds: str = REAL, masks: Sequence[str] = ()
) -> PlannedKernel:
    """Return the kernel of a scalar function over the runtime arguments; `masks` are read as bool.

    Raise NotImplementedError for a common dtype that is not among `kinds`.
    """
    inputs = [call.args[name] for name in call.runtime]
    common = call.common_dtype
    if common.is_complex or call.outputs[0].dtype.is_complex:
        return computed_in_pairs(call, function, kinds, masks)
    check_dtypes(call, [*call.outputs, *inputs])
    if kind_of(common) not in kinds:
        raise not_implemented(call, common)
    if common.itemsize == 2 and all(spec.dtype is common for spec in call.outputs):
        function = NARROW.get(function, function)
    types = [tl.int1 if name in masks else compute_type(common) for name in call.runtime]
    kernel = elementwise(call, function, inputs, types)
    if common.is_floating_point and common.itemsize <= 2 and call.name.rstrip("_") in ROUNDING_NUMBERS:
        return rounding_numbers(kernel, inputs, common)
    return kernel


def rounding_numbers(kernel: PlannedKernel, inputs: Sequence[Any], narrow: ScalarType) -> PlannedKernel:
    """Return a kernel that rounds its numbers to a 16-bit dtype before they widen."""
    indices = host_places(inputs)
    if not indices:
        return kernel
    into, round_to = kernel.into, narrow.np.type

    def rounded(out: Any, *values: Any) -> None:
        arguments = list(values)
        for index in indices:
            value = arguments[index]
            arguments[index] = value.astype(narrow.np) if hasattr(value, "astype") else float(round_to(value))
        into(out, *arguments)

    rounds = dict.fromkeys(indices, lambda value: float(round_to(value)))
    return kernel._replace(into=rounded, element=prepared_first(kernel.element, rounds))


def prepared_first(
    element: ElementFunction | None, first: Mapping[int, Callable[[Any], Any]]
) -> ElementFunction | None:
    """Return an element's function with some arguments prepared by another function first."""
    if element is None:
        return None

    def both(inner: Callable[[Any], Any], outer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: outer(inner(value))

    prepares = [
        both(first[index], prepare) if index in first else prepare
        for index, prepare in zip(element.operands, element.prepare, strict=True)
    ]
    return element._replace(prepare=tuple(prepares))


def rounding_to_complex_half(
    kernel: PlannedKernel, names: Sequence[str], inputs: Sequence[Any], masks: Sequence[str]
) -> PlannedKernel:
    """Return a kernel that rounds its numbers to complex32 before they widen; scales must be in its range."""
    indices = [index for index in host_places(inputs) if names[index] not in masks]
    if not indices:
        return kernel
    into, narrow = kernel.into, complex32.np
    scales = [index for index in indices if names[index] in SCALES]

    def rounded(out: Any, *values: Any) -> None:
        arguments = list(values)
        for index in scales:
            element_of(arguments[index], complex32)
        for index in indices:
            value = arguments[index]
            is_array = hasattr(value, "astype")
            arguments[index] = readable(value.astype(narrow)) if is_array else complex(narrow.type(value))
        into(out, *arguments)

    return kernel._replace(into=rounded)


def host_places(inputs: Sequence[Any]) -> list[int]:
    """Return the indices of inputs that are numbers or tensors in host memory."""
    return [
        i
        for i, source in enumerate(inputs)
        if not (isinstance(source, TensorSpec) and source.device.type == "cuda")
    ]


def computed_in_pairs(
    call: StructuredCall, function: Any, kinds: str, masks: Sequence[str] = ()
) -> PlannedKernel:
    """Return the `computed` kernel of complex operands or results."""
    common = call.common_dtype
    inputs = [call.args[name] for name in call.runtime]
    real = function in REAL_OF_COMPLEX
    if common.is_complex:
        function = REAL_OF_COMPLEX.get(function) or COMPLEX.get(function)
    if function is None or not (common.is_complex or kind_of(common) in kinds):
        raise not_implemented(call, common)
    types = [tl.int1 if name in masks else part_type(common) for name in call.runtime]
    pairs = [common.is_complex and name not in masks for name in call.runtime]
    kernel = complex_elementwise(call, function, inputs, types, pairs, common.is_complex and not real)
    return rounding_to_complex_half(kernel, call.runtime, inputs, masks) if common is complex32 else kernel


def not_implemented(call: StructuredCall, dtype: ScalarType) -> NotImplementedError:
    """Return PyTorch's error for a common dtype that a kernel does not support."""
    return NotImplementedError(f"\"{call.kernel_name()}\" not implemented for '{dtype.scalar_name}'")


def pointwise(function: Any, kinds: str = REAL) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a scalar function over the common dtype."""
    return lambda call: computed(call, function, kinds)


def equality(function: Any, of_exponents: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of ``eq`` and ``ne``, which also serve float8_e8m0fnu."""

    def factory(call: StructuredCall) -> PlannedKernel:
        if call.common_dtype is not EXPONENTS:
            return computed(call, function)
        inputs = [call.args[name] for name in call.runtime]
        types = [tl.uint8 if isinstance(source, TensorSpec) else tl.float32 for source in inputs]
        return elementwise(call, of_exponents, inputs, types)

    return factory


def scaled(plain: Any, with_scale: Any, kinds: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a row of `SCALED`."""

    def factory(call: StructuredCall) -> PlannedKernel:
        has_scale = "alpha" in call.runtime or "value" in call.runtime
        kernel = computed(call, with_scale if has_scale else plain, kinds)
        if not has_scale:
            return kernel
        common = call.common_dtype
        if "alpha" in call.runtime:
            return with_fitting(kernel, call, common, ("alpha",))
        return kernel if common.is_integral else with_fitting(kernel, call, wide_of(common), ("value",))

    return factory


def rounding(function: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a row of `ROUNDING`."""
    return lambda call: computed(call, f.same if call.common_dtype.is_integral else function, REAL_NUMBERS)


def wide_of(dtype: ScalarType) -> ScalarType:
    """Return float32 for 16-bit and 8-bit floats, else the dtype itself."""
    return float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def with_fitting(
    kernel: PlannedKernel,
    call: StructuredCall,
    dtype: ScalarType | None = None,
    names: Container[str] | None = None,
) -> PlannedKernel:
    """Return a kernel that rejects numbers which the common dtype, or another, cannot hold."""
    indices = [
        i
        for i, name in enumerate(call.runtime)
        if isinstance(call.args[name], type) and (names is None or name in names)
    ]
    if not indices:
        return kernel
    into, fitting = kernel.into, fitting_number(dtype or call.common_dtype)

    def ranged(out: Any, *values: Any) -> None:
        for index in indices:
            fitting(values[index])
        into(out, *values)

    element = prepared_first(kernel.element, dict.fromkeys(indices, fitting))
    return PlannedKernel(ranged, any_shape=kernel.any_shape, element=element)


def clamp(call: StructuredCall) -> PlannedKernel:
    """Clamp to both bounds, or to the given one."""
    low, high = call.args.get("min") is not None, call.args.get("max") is not None
    by_tensors = isinstance(call.args.get("min", call.args.get("max")), TensorSpec)
    if call.dtype is bool_ and ((low and high) or not by_tensors):
        kernel = "clamp" if low and high else f"clamp_{'min' if low else 'max'}"
        raise NotImplementedError(
            f"\"{kernel if by_tensors else kernel + '_scalar'}_cuda\" not implemented for 'Bool'"
        )
    if low and high:
        return with_fitting(computed(call, f.clamp), call)
    present_names = tuple(name for name in call.runtime if call.args[name] is not None)
    reduced = call._replace(runtime=present_names)
    kernel = with_fitting(computed(reduced, f.maximum if low else f.minimum), reduced)
    if present_names == call.runtime:
        return kernel
    present = call.runtime.index("min" if low else "max")
    into, element = kernel.into, kernel.element
    if element is not None:
        element = element._replace(operands=(0, present))
    return PlannedKernel(lambda out, *values: into(out, values[0], values[present]), element=element)


def div_mode(call: StructuredCall) -> PlannedKernel:
    """Division by rounding mode; quotients of narrow tensors are rounded to their dtype before they are truncated."""
    mode, other = call.args["rounding_mode"], call.args["other"]
    if mode == "trunc" and isinstance(other, TensorSpec) and other.ndim:
        return computed(call, TRUNCATED_IN.get(call.common_dtype.name, f.trunc_divide), REAL_NUMBERS)
    modes = {
        None: (f.divide, FLOAT),
        "trunc": (f.trunc_divide, REAL_NUMBERS),
        "floor": (f.floor_divide, REAL_NUMBERS),
    }
    return computed(call, *modes[mode])


def power(call: StructuredCall) -> PlannedKernel:
    """Compute self ** exponent; a number as exponent has functions of its own."""
    function = f.pow if isinstance(call.args["exponent"], TensorSpec) else f.pow_number
    if call.args["exponent"] is bool and getattr(call.args["self"], "dtype", None) is bool_:
        return computed(call, representation.truth_power, "b")
    kernel, common = computed(call, function, REAL_NUMBERS), call.common_dtype
    if isinstance(call.args["exponent"], type) and common.is_integral:
        return PlannedKernel(exponent_check(common.np, common.name)(kernel.into), any_shape=kernel.any_shape)
    return kernel


def where(call: StructuredCall) -> PlannedKernel:
    """Select `self` where the condition holds, else `other`."""
    kernel = computed(call, f.where, REAL, masks=("condition",))
    return kernel if call.common_dtype.name in ROUNDED_IN_WHERE else with_fitting(kernel, call)


def gelu(call: StructuredCall) -> PlannedKernel:
    """Compute x * Phi(x), by erf or by tanh."""
    return computed(call, f.gelu_tanh if call.args["approximate"] == "tanh" else f.gelu, FLOAT)


def gelu_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of gelu, by erf or by tanh."""
    function = f.gelu_tanh_backward if call.args["approximate"] == "tanh" else f.gelu_backward
    return computed(call, function, FLOAT)


def bounded(unbounded: Any, within: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of `logit` and its gradient, whose last argument may be None."""

    def factory(call: StructuredCall) -> PlannedKernel:
        if call.args.get("eps") is not None:
            return computed(call, within, FLOAT)
        runtime = tuple(name for name in call.runtime if name != "eps")
        into, count = computed(call._replace(runtime=runtime), unbounded, FLOAT).into, len(runtime)
        return PlannedKernel(lambda out, *values: into(out, *values[:count]))

    return factory


def nan_to_num(call: StructuredCall) -> PlannedKernel:
    """Replace NaN and infinities, by default with 0 and the finite limits; integers stay."""
    common = call.common_dtype
    if not (common.is_floating_point or common.is_complex):
        into = computed(call._replace(runtime=("self",)), f.same, REAL).into
        return PlannedKernel(lambda out, a, *replacements: into(out, a))
    limits = finfo(common.to_real() if common.is_complex else common)
    defaults = (0.0, limits.max, limits.min)
    names = ("nan", "posinf", "neginf")
    args = call.args | dict.fromkeys(names, float)
    into = computed(call._replace(args=args, runtime=("self", *names)), representation.nan_to_num, FLOAT).into
    present_names = call.runtime[1:]

    def replaced(out: Any, a: Any, *replacements: Any) -> None:
        values = dict(zip(present_names, replacements, strict=True))
        replacements_by_name = (values.get(name) for name in names)
        into(
            out,
            a,
            *(d if value is None else value for value, d in zip(replacements_by_name, defaults, strict=True)),
        )

    return PlannedKernel(replaced)


def round_decimals(call: StructuredCall) -> PlannedKernel:
    """To multiples of a power of ten or of its reciprocal, in the compute type throughout."""
    function = f.round_places if call.args["decimals"] >= 0 else f.round_tens
    power = call.extra["power"]
    widened = call._replace(args=call.args | {"power": float}, runtime=("self", "power"))
    into = computed(widened, function, FLOAT).into
    return PlannedKernel(lambda out, a, *_: into(out, a, power))


def nextafter(call: StructuredCall) -> PlannedKernel:
    """Return the neighbor of a number in the common dtype itself, without widening."""
    common = call.common_dtype
    inputs = [call.args[name] for name in call.runtime]
    check_dtypes(call, [*call.outputs, *inputs])
    if kind_of(common) != "f":
        raise not_implemented(call, common)
    return elementwise(call, representation.nextafter, inputs, [triton_type(common)] * 2)


FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "clamp": clamp,
    "clamp_max": clamp,
    "clamp_min": clamp,
    "div_mode": div_mode,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "logit": bounded(representation.logit, representation.logit_within),
    "logit_backward": bounded(representation.logit_backward, representation.logit_backward_within),
    "nan_to_num": nan_to_num,
    "nextafter": nextafter,
    "pow": power,
    "round_decimals": round_decimals,
    "softplus": with_defaults(pointwise(f.softplus, FLOAT)),
    "where": where,
}
FACTORIES |= {name: pointwise(*row) for name, row in FUNCTIONS.items()}
FACTORIES["eq"] = equality(f.eq, exponents.equal_exponents)
FACTORIES["ne"] = equality(f.ne, exponents.unequal_exponents)
FACTORIES |= {name: scaled(*row) for name, row in SCALED.items()}
FACTORIES |= {name: rounding(function) for name, function in ROUNDING.items()}

for _name, _factory in FACTORIES.items():
    register_stub(f"{_name}_stub", "cuda", _factory)
