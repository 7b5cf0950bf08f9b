"""Compiled loops that replace multi-pass NumPy kernels on the host (the extra ``triten[jit]``).

A kernel whose stub is in `LOOPED` or in `ROW_OPERATORS` begins with NumPy's implementation. After `COMPILE_THRESHOLD`
elements, a background thread compiles its loop, or loads it from the disk cache. From then on the loop computes the
plan's calls, with bitwise identical results. Without llvmlite no loops are compiled, and small programs never import
llvmlite.

A plan of few elements gets a loop after as much work, or after `SMALL_CALLS` calls. NumPy starts its iterator anew in
every call, which takes longer than the elements if an operand is broadcast or if there are several passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...runtime.cpu.background import background
from ...runtime.cpu.loop_requests import has_compiler
from ...runtime.float_errors import unwrapped
from ...runtime.scalar_type import bfloat16, bool_, float16, float32, float64
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from .stub import KernelFactory, PlannedKernel, StructuredCall, loopers

LOOPED_FROM = 1 << 13
"""Minimum number of elements of a kernel with a loop: NumPy computes fewer sooner than a loop is found."""
PASSES_LOOPED_FROM = 1 << 10
"""The same for kernels over rows, and for kernels of several passes that have no `_SmallLoop`. The passes of so many
elements take 20 us, and the search for a loop 3 us.
"""
COMPILE_THRESHOLD = 1 << 23
"""Compile a loop once a kernel has processed this many elements; NumPy takes some 10 milliseconds for them."""
WARM_COMPILE_THRESHOLD = 1 << 21
"""The same threshold once llvmlite is imported, which takes most of the time of the first loop."""
CALLS = 4
"""Minimum number of calls before a loop is compiled: a single computation is not worth a loop, even a large one."""
LARGE_FROM = 1 << 16
"""Minimum number of elements for a loop that replaces a single NumPy pass; threads share such a loop sooner."""
SHORT_LINE = 1 << 12
"""Longest row for which NumPy's start-up per row is too slow if an operand is broadcast."""
MAX_LOOPS = 32
"""Maximum number of loops per plan, each for other numbers or sizes."""
SMALL_CALLS = 1 << 14
"""Number of calls after which a plan of few elements gets a loop in any case. It saves half a microsecond in each, and
the first loop of a process takes some 100 milliseconds.
"""
NARROW = (bfloat16, float16)

Loop = Callable[..., bool | None]
"""Function of the output's array, and the arrays and numbers of a plan's inputs.

It returns True if it declines the inputs: NumPy has to compute the call.
"""


def several_passes(call: StructuredCall) -> bool:
    """Return True for kernels that take several passes in any dtype."""
    return True


def widens(call: StructuredCall) -> bool:
    """Return True for kernels of one pass whose operands are cast to float32 first."""
    return any(spec.dtype in NARROW for spec in (call.outputs[0], *_tensors(call)))


def converts(call: StructuredCall) -> bool:
    """Return True for copies to and from 16-bit floats."""
    source, target = call.args.get("src", call.args["self"]).dtype, call.outputs[0].dtype
    return source is not target and {source, target} <= {bfloat16, float16, float32}


def of_float32(call: StructuredCall) -> bool:
    """Return True for kernels of floats that compute in float32."""
    return call.outputs[0].dtype in (float32, *NARROW)


def of_small_calls(call: StructuredCall) -> bool:
    """Return False: only a call of few elements may have a loop."""
    return False


def repeats(call: StructuredCall) -> bool:
    """Return True for short rows with a broadcast operand: NumPy restarts for each of them."""
    out = call.outputs[0]
    if out.dtype not in (float32, bool_) or not 0 < out.sizes[-1] <= SHORT_LINE:
        return False
    return any(spec.ndim and spec.sizes != out.sizes for spec in _tensors(call))


PASSES = (
    *("addcdiv", "addcmul", "copysign", "elu", "erf", "frac", "gelu", "gelu_backward", "hardshrink"),
    *("hardsigmoid", "hardswish", "leaky_relu", "leaky_relu_backward", "lerp", "mish", "nextafter", "pow"),
    *("rsqrt", "sgn", "sigmoid", "sigmoid_backward", "sign", "silu", "silu_backward", "softplus"),
    *("softshrink", "tanh_backward", "threshold", "threshold_backward"),
)
ONE_PASS = (
    *("abs", "add", "clamp", "cos", "div", "exp", "log", "maximum", "minimum", "mul", "neg", "relu", "sin"),
    *("sqrt", "sub", "tanh"),
)
SMALL = ("eq", "ge", "gt", "le", "lt", "ne", "where")
LOOPED: dict[str, Callable[[StructuredCall], bool]] = {
    **dict.fromkeys((f"{name}_stub" for name in PASSES), several_passes),
    **dict.fromkeys((f"{name}_stub" for name in ONE_PASS), widens),
    **dict.fromkeys(("fmod_stub", "remainder_stub"), of_float32),
    **dict.fromkeys((f"{name}_stub" for name in SMALL), of_small_calls),
    "copy_stub": converts,
}
"""Predicates by stub: whether a loop would be faster than a call's kernel, for any shapes."""
ROW_OPERATORS = {
    **dict.fromkeys(
        ("softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "logsumexp"),
        (float32, *NARROW),
    ),
    **dict.fromkeys(("native_layer_norm", "fused_rms_norm"), NARROW),
}
"""Kernels that reduce rows, and the dtypes of which a loop takes each row through the cache once.

Norms of float32 are compiled loops from the first call on.
"""
FUNCTIONS = ("cos", "exp", "log", "sin", "tanh")
SINGLE = {f"{name}_stub": 1 << 15 if name in FUNCTIONS else LARGE_FROM for name in ONE_PASS}
"""Stubs whose loop is faster if a call `repeats`, or has this many floats of one dtype."""


CompileCall = Callable[[str, StructuredCall, dict[str, Any], tuple[str, ...], bool], Loop | None]
"""Function that compiles the loop of a stub's call, for the values of its numbers by name.

The fourth argument names inputs that are the output itself. If the last one is True, the loop may decline inputs. The
function returns None if there is no loop.
"""

_load_compiler: Callable[[], CompileCall] | None = None


def register_compiler(load: Callable[[], CompileCall]) -> None:
    """Import the function that compiles loops of calls by `load` when a loop is first requested."""
    global _load_compiler
    _load_compiler = load


def _calls_before_loop(size: int) -> int:
    """Return the number of calls of this many elements before a loop is compiled for them."""
    threshold = min(COMPILE_THRESHOLD, WARM_COMPILE_THRESHOLD) if background.is_warm else COMPILE_THRESHOLD
    return max(CALLS, threshold // max(size, 1))


class _Loops:
    """Loops of a plan's kernel, by its numbers, and by its number of elements if it serves several shapes."""

    may_decline = True

    def __init__(self, stub: str, call: StructuredCall, least: int = LOOPED_FROM) -> None:
        self.stub, self.call, self.by_size, self.least = stub, call, False, least
        names = call.runtime
        self.numbers = [i for i, name in enumerate(names) if not isinstance(call.args[name], TensorSpec)]
        self.arrays = [i for i in range(len(names)) if i not in self.numbers]
        self.known: dict[Any, Loop | None] = {}
        self.calls: dict[Any, int] = {}

    def unshared(self, into: Loop) -> Loop:
        """Wrap `into` for outputs that share no memory with inputs."""
        compute, least = self.compute, self.least

        def run(out: Any, *inputs: Any) -> None:
            if out.size < least:
                into(out, *inputs)
            else:
                compute(into, (), out, inputs)

        return run

    def shared(self, into: Loop) -> Loop:
        """Wrap `into` for outputs that may be an input."""
        compute, arrays, may_share, least = self.compute, self.arrays, np.may_share_memory, self.least

        def run(out: Any, *inputs: Any) -> None:
            if out.size < least:
                into(out, *inputs)
                return
            written = tuple([i for i in arrays if inputs[i] is out])
            if any(may_share(out, inputs[i]) for i in arrays if i not in written):
                into(out, *inputs)
            else:
                compute(into, written, out, inputs)

        return run

    def compute(self, into: Loop, written: tuple[int, ...], out: Any, inputs: tuple[Any, ...]) -> None:
        """Call the loop if there is one, else `into`, and request the loop once it is worthwhile."""
        key: Any = (out.size, written) if self.by_size else written
        if self.numbers:
            key = (key, *[key_of(inputs[i]) for i in self.numbers])
        loop = self.known.get(key)
        # Loops of a fixed size take contiguous arrays without broadcasting.
        if not self.by_size or len(self.arrays) == 1 or self._have_one_shape(out, inputs):
            if loop is not None:
                if loop(out, *inputs):
                    into(out, *inputs)
                return
            into(out, *inputs)
            if self._is_wanted(key, out.size):
                self._ask(key, written, out.shape, inputs)
        else:
            into(out, *inputs)

    def _have_one_shape(self, out: Any, inputs: tuple[Any, ...]) -> bool:
        shape = out.shape
        return all(inputs[i].shape == shape for i in self.arrays)

    def _is_wanted(self, key: Any, size: int) -> bool:
        """Count a call of this many elements; return True if a loop should be compiled now."""
        if key in self.known:
            return False
        count = self.calls.get(key, 0) + 1
        if count < _calls_before_loop(size):
            if len(self.calls) < 16 * MAX_LOOPS:
                self.calls[key] = count
            return False
        if len(self.known) == MAX_LOOPS:
            return False
        self.known[key] = None
        return True

    def _ask(
        self, key: Any, written: tuple[int, ...], shape: tuple[int, ...], inputs: tuple[Any, ...]
    ) -> None:
        names = self.call.runtime
        numbers = {names[i]: inputs[i] for i in self.numbers}
        call = _of_sizes(self.call, shape) if self.by_size else self.call

        def make() -> None:
            if _load_compiler is not None:
                compile_call = _load_compiler()
                self.known[key] = compile_call(
                    self.stub, call, numbers, tuple([names[i] for i in written]), self.may_decline
                )

        background.ask(make)


class _RowLoops(_Loops):
    """Loops of a kernel over rows, which may have several outputs, by its numbers."""

    may_decline = False

    def over(self, into: Loop) -> Loop:
        """Return `into`, or a loop instead of it."""
        count, numbers, may_share = len(self.call.outputs), self.numbers, np.may_share_memory
        known, pairs = self.known, [(i, count + j) for i in range(count) for j in self.arrays]
        size = next(self.call.args[self.call.runtime[i]].numel for i in self.arrays)

        def run(*arrays: Any) -> None:
            key = tuple([key_of(arrays[count + i]) for i in numbers])
            loop = known.get(key)
            if loop is None:
                into(*arrays)
                if self._is_wanted(key, size):
                    self._ask(key, (), (), arrays[count:])
                return
            for i, j in pairs:
                if may_share(arrays[i], arrays[j]):
                    into(*arrays)
                    return
            loop(*arrays)

        return run


def _of_sizes(call: StructuredCall, sizes: tuple[int, ...]) -> StructuredCall:
    """Return a call of contiguous tensors with other sizes, equal for all operands."""

    def resized(value: Any) -> Any:
        return (
            TensorSpec.contiguous(sizes, value.dtype, value.device)
            if isinstance(value, TensorSpec)
            else value
        )

    args = {name: resized(value) for name, value in call.args.items()}
    return _of_specs(call, args, resized(call.outputs[0]))


def _of_specs(call: StructuredCall, args: dict[str, Any], out: TensorSpec) -> StructuredCall:
    """Return a call with other tensors of the same dtypes. Only their common dtype is known."""
    extra = call.extra if call.dtype is None else {"common_dtype": call.dtype, **call.extra}
    return call._replace(args=call.args | args, outputs=(out,), iterator=None, extra=extra)


class _SmallLoop:
    """Request of a plan's loop, made of the arrays of one of its calls."""

    def __init__(self, stub: str, call: StructuredCall) -> None:
        self.stub, self.call = stub, call

    def ask(self, install: Callable[[Loop, tuple[int, ...], Any], None], *inputs: Any) -> None:
        """Have the background thread make the loop and call `install` with it and the result's shape and dtype."""
        out = self.call.outputs[0]
        shape = np.broadcast_shapes(*[x.shape for x in inputs])
        if not all(x.flags.c_contiguous for x in inputs):
            return
        specs = {
            name: TensorSpec.contiguous(x.shape, self.call.args[name].dtype, out.device)
            for name, x in zip(self.call.runtime, inputs, strict=True)
        }
        call = _of_specs(self.call, specs, TensorSpec.contiguous(shape, out.dtype, out.device))

        def make() -> None:
            loop = None if _load_compiler is None else _load_compiler()(self.stub, call, {}, (), False)
            if loop is not None:
                install(loop, shape, out.np_dtype)

        background.ask(make)


_TEXT = """
def wrapped(fresh, ask, calls_left):
    loop, shape, dtype = None, (), None
    def install(*made):
        nonlocal loop, shape, dtype
        _, shape, dtype = made
        loop = made[0]
    def run({arrays}):
        nonlocal calls_left
        if loop is not None:
            out = empty(shape, dtype)
            loop(out, {arrays})
            return out
        if calls_left:
            calls_left -= 1
            if not calls_left:
                ask(install, {arrays})
        return fresh({arrays})
    return run
"""


@cache
def _wrapper_of(count: int) -> Callable[..., Callable[..., Any]]:
    """Return a function from `PlannedKernel.fresh` of `count` arrays, `_SmallLoop.ask` and a number of calls.

    It returns the same function, which becomes the loop after these calls.
    """
    arrays = ", ".join([f"x{i}" for i in range(count)])
    text = _TEXT.format(arrays=arrays)
    return defined("wrapped", text, "small kernel", {"empty": np.empty})  # type: ignore[no-any-return]


def _has_small_loop(call: StructuredCall, kernel: PlannedKernel) -> bool:
    """Return True if a loop can make the new arrays of a kernel of few elements."""
    operands = [call.args[name] for name in call.runtime]
    are_contiguous = all(isinstance(spec, TensorSpec) and spec.is_contiguous for spec in operands)
    return kernel.fresh is not None and are_contiguous and has_compiler()


def _small(stub: str, call: StructuredCall, kernel: PlannedKernel) -> PlannedKernel:
    """Return a kernel of few elements whose new arrays a loop makes later, for each plan its own."""
    if not _has_small_loop(call, kernel):
        return kernel
    wrap, ask, sized = _wrapper_of(len(call.runtime)), _SmallLoop(stub, call).ask, kernel.sized

    def with_loop(own: PlannedKernel, numel: int) -> PlannedKernel:
        if own.fresh is None:
            return own
        alone = getattr(own.fresh, "alone", None)
        fresh = wrap(alone or own.fresh, ask, min(SMALL_CALLS, _calls_before_loop(numel)))
        return own._replace(fresh=fresh, quiet=own.quiet or alone is not None)

    return with_loop(kernel, call.outputs[0].numel)._replace(
        sized=lambda sizes: with_loop(kernel if sized is None else sized(sizes), math.prod(sizes))
    )


def looped(stub: str, factory: KernelFactory) -> KernelFactory:
    """Wrap `factory`: its kernels of many elements, or of many calls, get compiled loops later."""
    pays, single = LOOPED[stub], SINGLE.get(stub)

    def planned(call: StructuredCall) -> PlannedKernel:
        kernel = for_many_elements(call)
        out = call.outputs[0]
        if len(call.outputs) == 1 and out.ndim and out.numel < LOOPED_FROM and (pays(call) or repeats(call)):
            return _small(stub, call, kernel)
        return kernel

    def for_many_elements(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)
        if len(call.outputs) > 1 or not _serves(call):
            return kernel
        numel, is_paid = call.outputs[0].numel, pays(call)
        of_passes = LOOPED_FROM if _has_small_loop(call, kernel) else PASSES_LOOPED_FROM
        least = of_passes if is_paid else single if single and _is_plain(call) else None
        if least is not None:
            into = unwrapped(kernel.into)
            serves = kernel.any_shape and not set(getattr(into, "__dict__", ())) - {"alone"}
            if serves and (is_paid or numel >= least):
                return _for_any_shape(_Loops(stub, call, least), kernel, numel)
            if numel < least:
                kernel = kernel._replace(any_shape=min(kernel.any_shape, least - 1))
        is_looped = least is not None and numel >= least
        if not is_looped and not (single and numel >= LOOPED_FROM and repeats(call)):
            return kernel
        loops = _Loops(stub, call, min(least or LOOPED_FROM, LOOPED_FROM))
        return PlannedKernel(
            loops.shared(kernel.into), quiet=kernel.quiet, unshared=loops.unshared(kernel.into)
        )

    return planned


def looped_rows(stub: str, factory: KernelFactory) -> KernelFactory:
    """Wrap `factory`: its kernels of many contiguous rows get compiled loops later."""
    dtypes = ROW_OPERATORS[stub.removesuffix("_stub")]

    def planned(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)
        tensors = [*_tensors(call), *call.outputs]
        if not tensors[0].numel >= PASSES_LOOPED_FROM or not all(spec.is_contiguous for spec in tensors):
            return kernel
        if tensors[0].dtype not in dtypes:
            return kernel
        if kernel.fresh is not None or kernel.first is not None:
            return kernel  # few elements: a NumPy call allocates its own result
        return PlannedKernel(_RowLoops(stub, call).over(kernel.into), quiet=kernel.quiet)

    return planned


def _for_any_shape(loops: _Loops, kernel: PlannedKernel, numel: int) -> PlannedKernel:
    """Return a kernel that serves other shapes of contiguous tensors; each large shape has its own loop."""
    loops.by_size = True
    sized = kernel.sized

    def chosen(own: PlannedKernel, numel: int) -> PlannedKernel:
        if numel < loops.least:
            return own
        into = unwrapped(own.into)
        quiet = own.quiet or into is not own.into
        return own._replace(into=loops.shared(into), fresh=None, quiet=quiet, unshared=loops.unshared(into))

    return chosen(kernel, numel)._replace(
        sized=lambda sizes: chosen(kernel if sized is None else sized(sizes), math.prod(sizes))
    )


def _is_plain(call: StructuredCall) -> bool:
    """Return True if all operands are contiguous and of float32 or float64: a loop then reads the same values as
    NumPy.
    """
    out = call.outputs[0]
    return out.dtype in (float32, float64) and all(
        spec.dtype is out.dtype and spec.is_contiguous and spec.sizes in (out.sizes, ())
        for spec in (out, *_tensors(call))
    )


def _serves(call: StructuredCall) -> bool:
    return all(
        isinstance(value, TensorSpec) or value in (int, float, bool)
        for value in (call.args[name] for name in call.runtime)
    )


def _tensors(call: StructuredCall) -> list[TensorSpec]:
    return [spec for spec in (call.args[name] for name in call.runtime) if isinstance(spec, TensorSpec)]


def key_of(number: Any) -> Any:
    """Return a key that distinguishes a number from equal numbers of other classes and signs."""
    return (number.__class__, number, math.copysign(1.0, number) if number.__class__ is float else 0)


for _stub in LOOPED:
    loopers[_stub] = looped
for _name in ROW_OPERATORS:
    loopers[f"{_name}_stub"] = looped_rows
