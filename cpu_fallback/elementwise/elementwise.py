"""Path of every pointwise kernel: cast operands to the common dtype, apply one function, store the result.

The plan decides once whether a ufunc may write the result itself, which operands need a cast, whether the
error state matters, and whether to work in cache-sized blocks.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.complex_half import SCALES
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...dispatch.structured.supported_dtypes import ROUNDING_NUMBERS
from ...runtime.float_errors import quietly, run_quiet, run_quiet_copy
from ...runtime.scalar_type import complex32, float16
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..blocks import BLOCK, HANDED_OVER, SHARED_BLOCK, SHARED_BYTES, SHARED_FROM, TURNED_FROM, Blocks, part_of
from ..plain_numpy import np
from ..widen import FLOAT32, HALVES_FROM, compute_np, widened_halves
from .constants import Constants, RoundedConstants, constants_for

COSTLY = frozenset(
    {
        *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.sqrt, np.cbrt),
        *(np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2, np.hypot, np.floor_divide),
        *(np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.fmod, np.remainder),
    }
)
"""Ufuncs that take longer to compute than their operands to come from memory."""
COSTLY_FROM = 1 << 19
"""Elements from which a costly ufunc is shared."""
COSTLY_BLOCK = 1 << 16
"""Elements of a part of it, at least."""

SLOW: set[Any] = set()
"""Functions that go one element at a time, at ten nanoseconds and more: SciPy's."""
SLOW_FROM = 1 << 14
"""Elements from which a slow function is shared."""
SLOW_BLOCK = 1 << 13
"""Elements of a part of it, at least."""

LONG_FROM = 1 << 20
"""Elements from which several passes take longer blocks: threads wait for each other's Python after every pass."""
LONG_BLOCK = 1 << 17

LINED = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})
"""Ufuncs that take two arrays several at a time, but one by one an array and a number."""
LINE = 1 << 14
"""Elements of a line that a number is repeated to for them, which stays in the cache."""

SILENT = frozenset(
    {
        np.maximum,
        np.minimum,
        np.fmax,
        np.fmin,
        np.negative,
        np.positive,
        np.absolute,
        np.copysign,
        np.logical_not,
    }
)
"""Ufuncs that raise no floating-point flag, whatever their input."""


def planned(
    call: StructuredCall, function: Callable[..., Any], np_common: Any = None, masks: Sequence[str] = ()
) -> PlannedKernel:
    """Return the kernel that casts operands to the common dtype, calls `function`, and stores the result with a
    cast.

    Args:
        function: a ufunc, a function of arrays that returns a new array, or one marked by `writing`.
        np_common: the NumPy dtype to compute in, if it is not the one of `StructuredCall.common_dtype`.
        masks: arguments that are brought to bool instead.
    """
    if np_common is None:
        np_common = compute_np(call.common_dtype)
    operands = [call.args[name] for name in call.runtime]
    targets = [np.dtype(bool) if name in masks else np_common for name in call.runtime]
    out_spec = call.outputs[0]
    out_np = out_spec.np_dtype
    kinds = [isinstance(o, TensorSpec) for o in operands]
    plain = all(o.np_dtype == t for o, t in zip(operands, targets, strict=True) if isinstance(o, TensorSpec))
    is_ufunc = isinstance(function, np.ufunc)
    stores = is_ufunc and ufunc_keeps(function, np_common, len(operands), out_np)
    silent = not raises_flags(np_common) or (is_ufunc and function in SILENT)
    tensors = [o for o in operands if isinstance(o, TensorSpec)]
    # One element expanded has no order of its own: NumPy then follows the others.
    ordered = any(o.is_contiguous for o in tensors) and all(
        o.is_contiguous or not any(o.strides) for o in tensors
    )
    contiguous = all(o.is_contiguous for o in tensors)
    any_shape = sys.maxsize if contiguous else TURNED_FROM - 1 if ordered else 0
    if plain and stores:
        slow = function in SLOW
        costly = slow or function in COSTLY
        if slow:
            shared_from = SLOW_FROM
        elif costly or not all(o.is_contiguous and o.sizes in (out_spec.sizes, ()) for o in tensors):
            shared_from = COSTLY_FROM if costly else SHARED_FROM
        else:
            shared_from = SHARED_BYTES // sum(
                o.itemsize for o in (out_spec.dtype, *(o.dtype for o in tensors))
            )
        any_shape = min(any_shape, shared_from - 1)
        if out_spec.numel >= shared_from or (
            out_spec.numel >= TURNED_FROM and not contiguous and any(Blocks(out_spec, tensors).turns)
        ):
            block = part_of(out_spec.numel, SLOW_BLOCK if slow else COSTLY_BLOCK if costly else SHARED_BLOCK)
            prepare = _preparers(call, operands, targets)
            handed_over = 0 if slow else HANDED_OVER
            if out_spec.numel >= shared_from:
                why = "{} elements are at least {}, from which threads are worth waking"
                chosen("a ufunc in blocks, on several threads", why, out_spec.numel, shared_from)
            else:
                why = "operands lie in another order than the output, and {} elements are at least {}"
                chosen("a ufunc in blocks, turned to memory's order", why, out_spec.numel, TURNED_FROM)
            return PlannedKernel(
                _in_blocks(_writing(function, len(kinds)), prepare, operands, out_spec, block, handed_over)
            )
    numbers = [i for i, o in enumerate(operands) if kinds[i] and not o.ndim]
    if function in LINED and plain and stores and all(kinds) and len(numbers) == 1:
        any_shape = min(any_shape, LINE)
        if out_spec.numel > LINE and all(
            o.is_contiguous and o.sizes in (out_spec.sizes, ()) for o in (out_spec, *tensors)
        ):
            why = "this ufunc takes an array and a number one by one, and {} elements are more than {}"
            chosen("a number repeated to a line", why, out_spec.numel, LINE)
            return PlannedKernel(_beside_line(function, numbers[0], out_spec), quiet=True)
    if (
        plain and stores and kinds == [True, True] and ordered
        and operands[1].sizes == out_spec.sizes and _is_repeated(operands[0], out_spec)
    ):  # fmt: skip
        chosen("a ufunc of one element and an array", "the first operand is one element that is expanded")
        first = operator.itemgetter((*(0,) * out_spec.ndim, ...))
        return PlannedKernel(
            _output_first(function, 2),
            lambda a, b: function(first(a), b),
            not silent,
            # A tensor of one element that is contiguous is of the kind of those that are not repeated.
            0 if contiguous else any_shape,
        )
    if plain and stores and all(kinds) and len(kinds) <= 2:
        why = "operands have the dtype of the result, and {} elements are few"
        chosen("one call of a ufunc", why, out_spec.numel)
        return PlannedKernel(
            _output_first(function, len(kinds)), function if ordered else None, not silent, any_shape
        )
    if plain and stores and kinds == [True, False]:
        constants = constants_for(call, call.runtime[1], np_common, operands[1])
        why = "the array has the dtype of the result, and {} elements are few"
        chosen("one call of a ufunc with a number", why, out_spec.numel)
        return PlannedKernel(
            _with_constant_into(function, constants),
            _with_constant(function, constants) if ordered else None,
            any_shape=any_shape,
        )
    prepare = _preparers(call, operands, targets)
    common = call.common_dtype
    if common.np != np_common and (common is complex32 or call.name.rstrip("_") in ROUNDING_NUMBERS):
        prepare = [
            _rounded_first(p, o, common, np_common, name in SCALES)
            for p, o, name in zip(prepare, operands, call.runtime, strict=True)
        ]
    ready = all(p is _itself for p in prepare)
    if stores or function in WRITING:
        same = stores or out_np == np_common
        compute = _writing(function, len(kinds)) if same else _writing_cast(function, np_common)
    else:
        compute = _storing(function, len(kinds))
    slow = function in SLOW
    largest = SLOW_FROM if slow else BLOCK
    if out_spec.numel > largest:
        # Several passes keep what they have made, in float64 often.
        block = min(part_of(out_spec.numel, SLOW_BLOCK), LONG_BLOCK) if slow else BLOCK
        if not slow and out_spec.numel >= LONG_FROM:
            block = LONG_BLOCK
        handed_over = 0 if slow else HANDED_OVER
        why = "{} elements, which are more than {}, take several passes or a cast"
        chosen("passes over blocks of the cache", why, out_spec.numel, largest)
        return PlannedKernel(_in_blocks(compute, prepare, operands, out_spec, block, handed_over))
    any_shape = min(any_shape, largest)
    why = "{} elements are at most {}, and take several passes or a cast"
    chosen("passes over whole arrays", why, out_spec.numel, largest)
    if ready and raises_flags(np_common):
        whole = ordered and (function not in WRITING or function in MAKING) and out_np == np_common
        # Plans of in-place forms take a ufunc by its own signature, which knows operands in pairs at most.
        called = (lambda *inputs: function(*inputs)) if is_ufunc else function
        return PlannedKernel(compute, called if whole else None, True, any_shape)
    into = quietly(compute) if ready else quietly(_prepared(compute, prepare))
    if (function in WRITING and function not in MAKING) or not ordered:
        return PlannedKernel(into, any_shape=any_shape)
    if out_np == np_common and not ready and _only_last(prepare):
        return PlannedKernel(into, quietly(_prepared_last(function, prepare)), any_shape=any_shape)

    def fresh(*inputs: Any) -> Any:
        made = function(*inputs) if ready else function(*[p(x) for p, x in zip(prepare, inputs, strict=True)])
        return made if made.dtype == out_np else made.astype(out_np)

    return PlannedKernel(into, quietly(fresh), any_shape=any_shape)


def raises_flags(np_dtype: Any) -> bool:
    """Return True if arithmetic on this dtype can raise floating-point flags."""
    return bool(np_dtype.kind in "fcV")


WRITING: set[Any] = set()
"""Functions that write to an argument `out`, an array of the common dtype, rather than return a new array."""


def writing(function: Callable[..., None]) -> Callable[..., None]:
    """Mark a function as one that writes to its argument `out`.

    In-place forms call it with `out` among the arguments, so it must not read them after it has written.
    """
    WRITING.add(function)
    return function


MAKING: set[Any] = set()
"""Those of `WRITING` that return what they wrote, a new array where `out` is None."""


def making(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as one that writes to its argument `out`, and makes a new array where there is none."""
    MAKING.add(function)
    WRITING.add(function)
    return function


def _storing(function: Callable[..., Any], count: int = 0) -> Callable[..., None]:
    """Return a kernel that stores the result of a function of `count` arrays; 0 means any number."""
    copyto = np.copyto
    if count == 1:
        return lambda out, a: copyto(out, function(a), "unsafe")
    if count == 2:
        return lambda out, a, b: copyto(out, function(a, b), "unsafe")

    def store(out: Any, *arrays: Any) -> None:
        copyto(out, function(*arrays), "unsafe")

    return store


def _writing(function: Callable[..., Any], count: int = 0) -> Callable[..., None]:
    """Return a kernel that passes `out` to a function of `count` arrays; 0 means any number."""
    if count == 1:
        return lambda out, a: function(a, out=out)
    if count == 2:
        return lambda out, a, b: function(a, b, out=out)

    if count == 3:
        return lambda out, a, b, c: function(a, b, c, out=out)
    if count == 4:
        return lambda out, a, b, c, d: function(a, b, c, d, out=out)

    def write(out: Any, *arrays: Any) -> None:
        function(*arrays, out=out)

    return write


def _writing_cast(function: Callable[..., Any], np_common: Any) -> Callable[..., None]:
    def write(out: Any, *arrays: Any) -> None:
        made = np.empty(out.shape, np_common)
        function(*arrays, out=made)
        np.copyto(out, made, casting="unsafe")

    return write


def _only_last(prepare: Sequence[Callable[[Any], Any]]) -> bool:
    """Return True if every operand but the last needs no preparation."""
    return all(p is _itself for p in prepare[:-1])


def _prepared_last(
    function: Callable[..., Any], prepare: Sequence[Callable[[Any], Any]]
) -> Callable[..., Any]:
    """Return a function that prepares its last operand first."""
    last, count = prepare[-1], len(prepare)
    if count == 2:
        return lambda a, b: function(a, last(b))
    if count == 3:
        return lambda a, b, c: function(a, b, last(c))
    return lambda *inputs: function(*inputs[:-1], last(inputs[-1]))


def _prepared(compute: Callable[..., None], prepare: Sequence[Callable[[Any], Any]]) -> Callable[..., None]:
    if _only_last(prepare):
        last, count = prepare[-1], len(prepare)
        if count == 2:
            return lambda out, a, b: compute(out, a, last(b))
        if count == 3:
            return lambda out, a, b, c: compute(out, a, b, last(c))
        if count == 4:
            return lambda out, a, b, c, d: compute(out, a, b, c, last(d))

        def run_last(out: Any, *inputs: Any) -> None:
            compute(out, *inputs[:-1], last(inputs[-1]))

        return run_last

    if len(prepare) == 3:
        first, second, third = prepare

        def run_three(out: Any, a: Any, b: Any, c: Any) -> None:
            compute(out, first(a), second(b), third(c))

        return run_three

    def run(out: Any, *inputs: Any) -> None:
        compute(out, *[p(x) for p, x in zip(prepare, inputs, strict=True)])

    return run


def _in_blocks(
    compute: Callable[..., None],
    prepare: Sequence[Callable[[Any], Any]],
    operands: Sequence[Any],
    out_spec: TensorSpec,
    block: int = BLOCK,
    handed_over: int = HANDED_OVER,
) -> Callable[..., None]:
    """Return a kernel that processes its operands a block at a time; it prepares single elements once."""
    specs = [o if isinstance(o, TensorSpec) else None for o in operands]
    moving = [o is not None and o.ndim > 0 for o in specs]
    blocks = Blocks(out_spec, specs, block, handed_over)
    once = [
        (i, p) for i, (p, m) in enumerate(zip(prepare, moving, strict=True)) if not m and p is not _itself
    ]
    each = [p if m else _itself for p, m in zip(prepare, moving, strict=True)]
    step = compute if all(p is _itself for p in each) else _prepared(compute, each)

    @quietly
    def run(out: Any, *inputs: Any) -> None:
        ready = inputs
        if once:
            filled = list(inputs)
            for i, p in once:
                filled[i] = p(filled[i])
            ready = tuple(filled)
        blocks.run(step, out, *ready)

    return run


def _beside_line(function: np.ufunc, number: int, out_spec: TensorSpec) -> Callable[..., None]:
    """Return a kernel of contiguous operands that broadcasts the operand `number`, a scalar, to a line of
    `LINE`.
    """
    whole = Blocks(out_spec, [out_spec], out_spec.numel)

    def into(out: Any, *inputs: Any) -> None:
        line = np.full(LINE, inputs[number])

        def step(out: Any, a: Any) -> None:
            full = a.size // LINE * LINE
            rows, rest = a[:full].reshape(-1, LINE), a[full:]
            pair, last = ((line, rows), (line[: rest.size], rest))
            if number:
                pair, last = pair[::-1], last[::-1]
            function(*pair, out=out[:full].reshape(-1, LINE))
            function(*last, out=out[full:])

        whole.run(step, out, inputs[1 - number])

    return into


def ufunc_keeps(function: np.ufunc, np_dtype: Any, arity: int, out: Any) -> bool:
    """Return True if a ufunc over this dtype returns exactly the output's dtype."""
    try:
        resolved = function.resolve_dtypes((np_dtype,) * arity + (None,))
    except TypeError:
        return False
    return bool(resolved[-1] == out and all(r == np_dtype for r in resolved[:-1]))


def _preparers(
    call: StructuredCall, operands: Sequence[Any], targets: Sequence[Any]
) -> list[Callable[[Any], Any]]:
    """Return the preparation of each operand: a cast for tensors, cached arrays for numbers."""
    return [
        _preparer(o, t)
        if o is None or isinstance(o, TensorSpec)
        else constants_for(call, name, t, o).__getitem__
        for name, o, t in zip(call.runtime, operands, targets, strict=True)
    ]


def _preparer(operand: TensorSpec | None, np_common: Any) -> Callable[[Any], Any]:
    if operand is None:
        return _itself
    if operand.np_dtype == np_common:
        return _itself
    if operand.dtype.is_complex and np_common.kind != "c" and np_common != complex32.np:
        if operand.dtype is complex32:
            wide = compute_np(complex32)
            return lambda array: array.astype(wide).real.astype(np_common)
        return lambda array: array.real.astype(np_common)
    if operand.dtype is float16 and np_common == FLOAT32 and operand.numel >= HALVES_FROM:
        return widened_halves
    return lambda array: array.astype(np_common)


def _rounded_first(
    prepare: Callable[[Any], Any], operand: Any, common: ScalarType, compute: Any, is_scale: bool
) -> Callable[[Any], Any]:
    """`prepare`, where the operand is a number, or one element of another dtype, of its value in a narrow dtype."""
    narrow = common.np
    if operand is None:
        return prepare
    if isinstance(operand, TensorSpec):
        if operand.ndim or operand.np_dtype == narrow:
            return prepare
        return lambda array: prepare(array.astype(narrow))
    return RoundedConstants(compute, operand, narrow, common if is_scale else None).__getitem__


def _is_repeated(spec: TensorSpec, out: TensorSpec) -> bool:
    """Return True if a tensor is one element expanded to the output's sizes, like gradients of sums."""
    return bool(spec.ndim and spec.numel and spec.sizes == out.sizes and not any(spec.strides))


def _itself(array: Any) -> Any:
    return array


def _output_first(function: Any, arity: int) -> Callable[..., Any]:
    """Return a ufunc that takes its output as the first argument."""
    if arity == 1:
        return lambda out, a: function(a, out=out)
    if arity == 2:
        return lambda out, a, b: function(a, b, out=out)
    return lambda out, *inputs: function(*inputs, out=out)


def _with_constant(function: Any, constants: Constants) -> Callable[..., Any]:
    """Wrap `function` of an array and a number, marked for plans that look the number up themselves."""

    def binary(a: Any, number: Any) -> Any:
        value = constants[number]
        try:
            return run_quiet(function, a, value)
        except RuntimeError:
            return run_quiet_copy(function, a, value)

    if isinstance(function, np.ufunc):
        binary.__dict__.update(ufunc=function, constants=constants)
    return binary


def _with_constant_into(function: Any, constants: Constants) -> Callable[..., Any]:
    """Return the out-first variant, marked the same for callers that already ignore floating-point errors."""

    def binary(out: Any, a: Any, number: Any) -> None:
        value = constants[number]
        try:
            run_quiet(function, a, value, out=out)
        except RuntimeError:
            run_quiet_copy(function, a, value, out=out)

    if isinstance(function, np.ufunc):
        binary.__dict__.update(ufunc=function, constants=constants)
    return binary
