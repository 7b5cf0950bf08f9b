"""Strict semantics for Triton's interpreter: the one place where it differs from Triton's own.

* Every load and store is checked against live memory. Lanes masked off without `other` are 0, and reported
  where they are used (`undefined`), or poison under ``TRITEN_INTERPRET_POISON=1``.
* bfloat16 and float8 compute and convert as on the GPU; `tl.dot` accumulates in float32 and rounds TF32 inputs.
* Python's statements and builtins have the compiler's semantics (`syntax`).
* libdevice works, with the signatures that a compiled kernel has.
* Arguments get the signature's exact types, and no memory is copied for a launch.
* Values of the same shape share the shape object (`shapes`).
* Programs of a launch run in batches (`batch`).

Importing this module patches Triton for the rest of the process, which then interprets every kernel.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
import os
from collections.abc import Mapping
from types import FunctionType, ModuleType, SimpleNamespace, TracebackType
from typing import Any

import numpy as np
import triton.language as tl
from scipy import special
from triton._C.libtriton import interpreter as memory_access
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import min_dot_size
from triton.language.extra import cuda as cuda_extra
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterOptions, TensorHandle

from ..driver import Grid
from ..simulated.memory import LiveBlocks
from ..triton.compile import WARP_SIZE, format_of
from . import batched_builder, block_scales, reductions, scalar_functions, shapes, undefined
from .batch import FIRST_SIZE, MAX_FAILURES, MAX_LANES, Batch, Unbatchable
from .batched_builder import BatchedBuilder, aligned
from .formats import (
    BFLOAT16,
    FLOAT32,
    FLOAT64,
    Array,
    convert,
    extremum,
    flush_subnormals,
    numpy_type,
    poison,
    round_to_tf32,
    storage_type,
)
from .lanes import FLOAT_CHANGES, gather, modify
from .libdevice import function_of, instruction
from .syntax import KernelTransformer, namespace, refuse_truth, static_assert

CAPABILITY = 90
MAX_REPEATS = 1 << 17
"""Number of equal results of one atomic in a row, after which a program waits in vain: some seconds."""


@dataclasses.dataclass(frozen=True)
class LaunchOptions(InterpreterOptions):  # type: ignore[misc]
    """Triton's options of interpreted kernels, and those of a launch that kernels ask for."""

    debug: bool = False
    num_warps: int = 4


class StrictBuilder(BatchedBuilder):
    """Triton's operations on NumPy arrays, with memory checks and correct 16-bit and 8-bit floats."""

    def __init__(self) -> None:
        super().__init__()
        # Overflow wraps, as in a compiled kernel: checking it would forbid Philox and integer operators.
        self.options = LaunchOptions(
            sanitize_overflow=False,
            supported_fp8_dtypes=("fp8e5", "fp8e4nv"),
            allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
        )
        self.codegen_fns["min_dot_size"] = min_dot_size(GPUTarget("cuda", CAPABILITY, WARP_SIZE))
        self.kernel = ""
        self.poisons = os.environ.get("TRITEN_INTERPRET_POISON") == "1"
        self.reports_undefined = False
        self._observation: tuple[int, bytes] | None = None
        self._repeats = 0
        self.blocks = LiveBlocks()

    def _where(self) -> str:
        return f"kernel '{self.kernel}', program {self.grid_idx}"

    def _check(self, access: str, pointers: Array, mask: Array | None, dtype: np.dtype[Any]) -> None:
        """Raise RuntimeError unless each lane that is not masked off is in live memory and aligned."""
        addresses = pointers if mask is None else pointers[mask]
        if addresses.size == 0:
            return
        itemsize = dtype.itemsize
        if itemsize > 1:
            misaligned = (addresses & np.uint64(itemsize - 1)) != 0
            if misaligned.any():
                self.needs_one_program()
                raise RuntimeError(
                    f"CUDA error: misaligned address: {self._where()}: {access} of {dtype.name} at "
                    f"{int(addresses[misaligned].flat[0]):#x}"
                )
        outside = self.blocks.first_outside(addresses, itemsize)
        if outside is not None:
            self.needs_one_program()
            raise RuntimeError(
                "CUDA error: an illegal memory access was encountered: "
                f"{self._where()}: {access} of {dtype.name} at {outside:#x}, {self.blocks.describe(outside)}"
            )

    def create_assert(self, condition: Any, message: str) -> None:
        if not condition:
            self.needs_one_program()
            raise RuntimeError(
                f"CUDA error: device-side assert triggered: {self._where()}: Assertion `{message}` failed"
            )

    # How a load or store is cached changes no result; it is one argument from Triton 3.9, two before.
    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *caching: Any, **more: Any) -> Any:
        type_ = ptrs.get_element_ty()
        dtype = numpy_type(type_)
        pointers, active = aligned(ptrs.data, np.asarray(mask.data))
        self._note_width(pointers.shape[1:])
        where = None if active.all() else active
        self._check("load", pointers, where, dtype)
        if self.batch is not None:
            self.batch.load(pointers, where, dtype.itemsize)
        storage = storage_type(dtype)
        if other is not None:
            rest = other.data.view(storage)
        else:
            rest = poison(dtype).view(storage) if self.poisons else np.zeros((), storage)
        loaded = TensorHandle(gather(pointers, where, rest, storage).view(dtype), type_)
        if other is None and self.reports_undefined and where is not None:
            return undefined.mark(loaded, ~active)
        return loaded

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *caching: Any, **more: Any) -> Any:
        dtype = numpy_type(ptrs.get_element_ty())
        pointers, active, data = aligned(ptrs.data, np.asarray(mask.data), value.data)
        where = None if active.all() else active
        self._check("store", pointers, where, dtype)
        if data.dtype.itemsize != dtype.itemsize:
            raise TypeError(f"{self._where()}: a store of {data.dtype} through a pointer to {dtype}")
        if value.attr:
            undefined.report(self.kernel, "a store", value, active=active)
        bits = data.view(storage_type(data.dtype))
        self._observation = None
        if self.batch is not None:
            return self.batch.store(pointers, where, bits)
        return memory_access.store(pointers, bits, active)

    def create_descriptor_load(self, desc: Any, indices: Any, *caching: Any) -> Any:
        loaded = super().create_descriptor_load(desc, indices, *caching)
        if getattr(desc, "round_f32_to_tf32", False):  # Triton's own looks at it from 3.9
            loaded.data = round_to_tf32(loaded.data)
        return loaded

    def create_descriptor_reduce(self, kind: Any, desc: Any, value: Any, indices: Any) -> None:
        """Combine a block with the elements of a tensor, atomically (`tl.tensor_descriptor.atomic_add`)."""
        pointers, mask = desc.materialize_pointers(indices)
        name, type_ = kind.name, value.dtype.scalar
        if name in ("MIN", "MAX") and type_.is_int_unsigned():
            name = f"U{name}"
        operation = (
            ir.ATOMIC_OP.FADD if name == "ADD" and type_.is_floating() else getattr(ir.ATOMIC_OP, name)
        )
        self.create_atomic_rmw(operation, pointers, value, mask, ir.MEM_SEMANTIC.RELAXED, None)

    def _check_atomic(self, ptr: Any, active: Array | None) -> None:
        self.needs_one_program()
        self._check("atomic", ptr.data, active, numpy_type(ptr.get_element_ty()))

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        type_ = ptr.get_element_ty()
        active = np.broadcast_to(mask.data, ptr.data.shape)
        self._check_atomic(ptr, active)
        # Triton's own exchanges no floats, and knows neither bfloat16 nor extrema of 16 bits.
        change = FLOAT_CHANGES.get(rmwOp) if type_.is_floating() else None
        if change is None or (type_.primitive_bitwidth > 16 and rmwOp != ir.ATOMIC_OP.XCHG):
            return self._observed(ptr, super().create_atomic_rmw(rmwOp, ptr, val, mask, sem, scope))
        values = np.ascontiguousarray(np.broadcast_to(val.data, ptr.data.shape))
        bits = np.dtype(f"u{values.dtype.itemsize}")
        found = modify(np.ascontiguousarray(ptr.data), values, active, bits, change)
        return self._observed(ptr, TensorHandle(found, type_))

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        self._check_atomic(ptr, None)
        type_ = cmp.dtype.scalar
        if type_.is_floating():  # bits are compared, as by the instruction
            bits = np.dtype(f"i{type_.primitive_bitwidth // 8}")
            cmp, val = (
                TensorHandle(np.ascontiguousarray(each.data).view(bits), type_) for each in (cmp, val)
            )
            found = super().create_atomic_cas(ptr, cmp, val, sem, scope)
            return self._observed(ptr, TensorHandle(found.data.view(numpy_type(type_)), type_))
        return self._observed(ptr, super().create_atomic_cas(ptr, cmp, val, sem, scope))

    def create_atomic_poll(self, ptr: Any, expected: Any, timeout_ns: Any, sem: Any, scope: Any) -> Any:
        self._check_atomic(ptr, None)
        storage = storage_type(numpy_type(ptr.get_element_ty()))
        there = gather(ptr.data, None, np.zeros((), storage), storage).view(expected.data.dtype)
        is_there = there == expected.data
        # Without a timeout, Triton passes an empty value.
        if not isinstance(timeout_ns, TensorHandle) and not is_there.all():
            raise self._waits_in_vain(ptr.data[~is_there].flat[0], there[~is_there].flat[0], "polls")
        return TensorHandle(is_there, tl.int1)

    def begin_program(self) -> None:
        """Forget what the program before has observed."""
        self._observation = None

    def _observed(self, ptr: Any, result: Any) -> Any:
        """Return the result of an atomic. Raise RuntimeError if the program waits for another one, which runs later."""
        if ptr.data.size == 1:
            observation = int(ptr.data.flat[0]), result.data.tobytes()
            self._repeats = self._repeats + 1 if observation == self._observation else 0
            self._observation = observation
            if self._repeats == MAX_REPEATS:
                raise self._waits_in_vain(
                    observation[0], result.data.flat[0], f"read {MAX_REPEATS} times in a row"
                )
        return result

    def _waits_in_vain(self, address: int, value: object, how: str) -> RuntimeError:
        return RuntimeError(
            f"{self._where()}: an atomic {how} {value} at {int(address):#x}: the program waits for another one, and "
            "the interpreter runs them one after the other; TRITEN_CUDA=emulate runs them together"
        )

    def create_grid_dependency_wait(self) -> None:
        """Wait for nothing: kernels run one after another (`tl.extra.cuda.gdc_wait`)."""

    def create_grid_dependency_launch_dependents(self) -> None:
        """Launch nothing early (`tl.extra.cuda.gdc_launch_dependents`)."""

    def get_bf16(self, value: float) -> Any:
        return self._constant(value, tl.bfloat16)

    def get_fp8e5(self, value: float) -> Any:
        return self._constant(value, tl.float8e5)

    def get_fp8e4nv(self, value: float) -> Any:
        return self._constant(value, tl.float8e4nv)

    def _constant(self, value: float, type_: Any) -> Any:
        return TensorHandle(convert(np.array([value], np.float32), numpy_type(type_)), type_)

    def create_addptr(self, ptr: Any, offset: Any) -> Any:
        self._check_ranks(ptr, offset)
        return super().create_addptr(ptr, offset)

    def _check_ranks(self, lhs: Any, rhs: Any) -> None:
        """NumPy would take the programs of a scalar for lanes of a block."""
        if lhs.data.ndim != rhs.data.ndim:
            self.needs_one_program()

    def unary_op(self, arg: Any, op: Any) -> Any:
        return undefined.spread(super().unary_op(arg, op), arg)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        self._check_ranks(lhs, rhs)
        return undefined.spread(super().binary_op(lhs, rhs, op), lhs, rhs)

    def create_select(self, condition: Any, lhs: Any, rhs: Any) -> Any:
        return undefined.select(self.ternary_op(condition, lhs, rhs, np.where), condition, lhs, rhs)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return undefined.spread(TensorHandle(convert(src.data, numpy_type(dst_type)), dst_type.scalar), src)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        toward_zero = rounding_mode == ir.ROUNDING_MODE.RTZ
        result = TensorHandle(convert(src.data, numpy_type(dst_type), toward_zero), dst_type.scalar)
        return undefined.spread(result, src)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        undefined.report(self.kernel, "tl.dot", a, b)
        left, right, accumulator = a.data, b.data, d.data
        if accumulator.dtype.kind == "i":
            # Sums of products of 8-bit integers are exact in float64, which BLAS multiplies.
            product = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
            return TensorHandle((product + accumulator).astype(accumulator.dtype), d.dtype.scalar)
        wide = FLOAT64 if accumulator.dtype == FLOAT64 else FLOAT32
        if input_precision == ir.INPUT_PRECISION.TF32:
            left, right = (round_to_tf32(x) if x.dtype == FLOAT32 else x for x in (left, right))
        product = np.matmul(left.astype(wide), right.astype(wide)) + accumulator.astype(wide)
        return TensorHandle(product.astype(accumulator.dtype), d.dtype.scalar)

    def create_dot_scaled(
        self,
        lhs: Any,
        lhs_scale: Any,
        lhs_format: Any,
        rhs: Any,
        rhs_scale: Any,
        rhs_format: Any,
        fast_math: bool,
        lhs_k_pack: bool,
        rhs_k_pack: bool,
        accumulator: Any,
    ) -> Any:
        scales = [None if handle is None else handle.data for handle in (lhs_scale, rhs_scale)]
        left = block_scales.scaled_operand(lhs.data, scales[0], lhs_format, -1 if lhs_k_pack else -2, -1)
        right = block_scales.scaled_operand(rhs.data, scales[1], rhs_format, -2 if rhs_k_pack else -1, -2)
        return TensorHandle(block_scales.product(left, right, accumulator.data), accumulator.dtype.scalar)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        # A product of two float32 is exact in float64: the sum is rounded there, and then once more.
        if z.data.dtype == FLOAT64:
            return super().create_fma(x, y, z)
        wide = [handle.data.astype(np.float64) for handle in (x, y, z)]
        return TensorHandle(convert(wide[0] * wide[1] + wide[2], z.data.dtype), z.dtype.scalar)

    def _extremum(self, ufunc: np.ufunc, left: Any, right: Any) -> Any:
        result = TensorHandle(extremum(ufunc, left.data, right.data), left.dtype.scalar)
        return undefined.spread(result, left, right)

    def create_minimumf(self, lhs: Any, rhs: Any) -> Any:
        return self._extremum(np.minimum, lhs, rhs)

    def create_maximumf(self, lhs: Any, rhs: Any) -> Any:
        return self._extremum(np.maximum, lhs, rhs)

    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self._extremum(np.fmin, lhs, rhs)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self._extremum(np.fmax, lhs, rhs)

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        quiet = propagate_nans == ir.PROPAGATE_NAN.NONE
        bounded = self._extremum(np.fmax if quiet else np.maximum, arg, lo)
        return self._extremum(np.fmin if quiet else np.minimum, bounded, hi)

    def create_floor(self, arg: Any) -> Any:
        return self._rounded(np.floor, arg)

    def create_ceil(self, arg: Any) -> Any:
        return self._rounded(np.ceil, arg)

    def _rounded(self, ufunc: np.ufunc, arg: Any) -> Any:
        """Round to an integer; float32's subnormals count as zeros (``cvt.rmi.ftz.f32.f32``)."""
        data = flush_subnormals(arg.data) if arg.data.dtype == FLOAT32 else arg.data
        return TensorHandle(ufunc(data), arg.dtype.scalar)

    def create_erf(self, arg: Any) -> Any:
        return TensorHandle(special.erf(arg.data), arg.dtype.scalar)

    def create_inline_asm(
        self, inlineAsm: str, constraints: str, values: list[Any], type: list[Any], isPure: bool, pack: int
    ) -> Any:
        arrays, kinds = [value.data for value in values], [each.scalar for each in type]
        function = instruction(inlineAsm)
        if function is not None:
            results = [function(*arrays)]
        else:
            from . import assembly  # imports the emulator, which few kernels need

            results = assembly.run(inlineAsm, constraints, arrays, [numpy_type(kind) for kind in kinds], pack)
        handles = [TensorHandle(*each) for each in zip(results, kinds, strict=True)]
        return SimpleNamespace(get_result=handles.__getitem__)

    def create_extern_elementwise(
        self, libName: str, libPath: str, symbol: str, argList: list[Any], retType: Any, isPure: bool
    ) -> Any:
        result = function_of(symbol)(*(argument.data for argument in argList))
        return TensorHandle(result.astype(numpy_type(retType)), retType.scalar)


def argument_type(name: str) -> Any:
    """Return the Triton type of a signature's entry such as ``"*fp32"``. Raise ValueError if it is unsupported."""
    format_of(name)
    type_ = tl.str_to_ty(name, None)
    numpy_type(type_.element_ty if name.startswith("*") else type_)
    return type_


def scalar_or_pointer(type_: Any, value: int | float) -> Any:
    """Return a launch argument as a Triton tensor of exactly its type. Raise for a value that does not fit."""
    dtype = numpy_type(type_)
    if dtype == BFLOAT16:
        data = convert(np.array([value], np.float32), dtype)
    else:
        # NumPy would truncate a float silently; an integer that does not fit raises.
        data = np.array([operator.index(value) if dtype.kind in "iu" else value], dtype)  # type: ignore[arg-type]
    return tl.tensor(TensorHandle(data, type_), type_)


def descriptor(base: Any, host_descriptor: Any) -> Any:
    """Return a host `TensorDescriptor` as a kernel sees it; `base` is the pointer to its memory."""
    sizes = [scalar_or_pointer(tl.int32, size) for size in host_descriptor.shape]
    strides = [scalar_or_pointer(tl.int64, stride) for stride in host_descriptor.strides[:-1]]
    made = _semantic.make_tensor_descriptor(
        base,
        sizes,
        [*strides, tl.constexpr(1)],
        [tl.constexpr(n) for n in host_descriptor.block_shape],
        host_descriptor.padding,
    )
    made.handle.round_f32_to_tf32 = getattr(host_descriptor, "round_f32_to_tf32", False)
    return made


def described(base: Any, tensor: Any, block: tuple[int, ...]) -> Any:
    """Return a `DescribedTensor` as a kernel sees it; elements outside of it read as zeros."""
    return descriptor(
        base,
        SimpleNamespace(shape=tensor.sizes, strides=tensor.strides, block_shape=block, padding="zero"),
    )


class _Located:
    """Context manager that adds the kernel and the program to an exception raised inside."""

    __slots__ = ("_builder",)

    def __init__(self, builder: StrictBuilder) -> None:
        self._builder = builder

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"in {self._builder._where()}")


class ProgramRunner:
    """Runner of a launch's programs, in batches if possible. Not thread-safe."""

    def __init__(self) -> None:
        self._builder = _builder
        self._located = _Located(_builder)

    def run(
        self,
        kernel: Any,
        name: str,
        arguments: Mapping[str, object],
        grid: Grid,
        blocks: LiveBlocks,
        reports_undefined: bool,
        is_debugged: bool,
        num_warps: int,
    ) -> None:
        """Run a kernel over a grid on the memory of one device."""
        builder = self._builder
        builder.options = dataclasses.replace(builder.options, debug=is_debugged, num_warps=num_warps)
        builder.kernel, builder.blocks = name, blocks
        builder.reports_undefined = reports_undefined and not builder.poisons
        function = kernel.rewrite()
        builder.set_grid_dim(*grid)
        nx, ny, nz = grid
        first, total, size, failures = 0, nx * ny * nz, FIRST_SIZE, 0
        with np.errstate(all="ignore"), self._located:
            while first < total:
                count = min(size, total - first)
                if count > 1:
                    if self._run_batch(function, arguments, Batch(first, count)):
                        size = max(MAX_LANES // builder.widest, 1)
                        first += count
                        continue
                    failures += 1
                    size = FIRST_SIZE if failures < MAX_FAILURES else 1
                for program in range(first, first + count):
                    builder.grid_idx = (program % nx, program // nx % ny, program // (nx * ny))
                    builder.begin_program()
                    function(**arguments)
                first += count

    def _run_batch(self, function: Any, arguments: Mapping[str, object], batch: Batch) -> bool:
        """Run programs together, and return whether they could."""
        builder = self._builder
        builder.begin(batch)
        try:
            function(**arguments)
        except Unbatchable:
            return False
        finally:
            builder.batch = None
        if batch.conflicts():
            return False
        batch.write()
        return True


def _call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    # Triton's own interpreter patches the language again at each call, which costs more than the call.
    return self.rewrite()(*args, **kwargs)


def _compile_rewritten(self: Any, transformed: Any) -> Any:
    # Triton's own interpreter copies its whole namespace into the kernel's module, where it hides mistakes.
    self.fn.__globals__.update(_NAMESPACE)
    local: dict[str, Any] = dict(self.kwargs)
    exec(compile(transformed, filename=self.filename, mode="exec"), self.fn.__globals__, local)
    return local[self.fn.__name__]


def _transform(self: Any, source: str) -> Any:
    tree = KernelTransformer(self.fn, frozenset(self.kwargs)).visit(ast.parse(source))
    ast.fix_missing_locations(tree)
    return ast.increment_lineno(tree, self.def_file_lineno - 1)


def _install_libdevice(semantic: Any) -> None:
    """Make libdevice's functions compute. Each keeps its identity: modules may have imported it before."""

    def refuse(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"libdevice.{name} does not exist on CUDA")

        return call

    for name, function in vars(libdevice).items():
        if isinstance(function, FunctionType) and function.__module__ == libdevice.__name__:
            _delegate(function, vars(cuda_libdevice).get(name) or refuse(name))


def _supply_semantic(module: ModuleType, semantic: Any) -> None:
    """Make the functions from `core.builtin` pass the interpreter's semantic to their wrapped functions."""
    for each in vars(module).values():
        if (
            isinstance(each, FunctionType)
            and tl.core.is_builtin(each)
            and each.__code__.co_freevars == ("fn",)
        ):
            each.__code__ = _WITH_SEMANTIC
            each.__kwdefaults__ = {"_interpreter": semantic}


def _delegate(function: FunctionType, target: Any) -> None:
    """Make a function without cells call another one."""
    function.__code__ = _DELEGATING
    function.__defaults__ = None
    function.__kwdefaults__ = {"_target": target}


def _with_semantic(fn: Any) -> Any:
    def call(*args: Any, _interpreter: Any, **kwargs: Any) -> Any:
        return fn(*args, **{**kwargs, "_semantic": _interpreter})

    return call


def _delegating(*args: Any, _target: Any, **kwargs: Any) -> Any:
    return _target(*args, **kwargs)


_WITH_SEMANTIC = _with_semantic(None).__code__
_DELEGATING = _delegating.__code__


def _install() -> tuple[StrictBuilder, Any, dict[str, Any]]:
    builder = StrictBuilder()
    shapes.install()
    batched_builder.install()
    semantic = shapes.Semantic(builder)
    names = namespace(semantic)

    def checked(function: Any, use: str) -> Any:
        def call(input: Any, *args: Any, **kwargs: Any) -> Any:
            if builder.reports_undefined:
                tensors = input if isinstance(input, tuple | tl.tuple) else (input,)
                undefined.report(builder.kernel, use, *(tensor.handle for tensor in tensors))
            return function(input, *args, **kwargs)

        return call

    def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1, **_: object) -> Any:
        return scalar_functions.map_elementwise(builder, scalar_fn, semantic.broadcast_tensors(*args), pack)

    interpreter._get_np_dtype = numpy_type
    interpreter.interpreter_builder = builder
    interpreter.interpreter_semantic = semantic
    for module in (tl, tl.core, tl.math, cuda_extra, cuda_libdevice):
        _supply_semantic(module, semantic)
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    for module in (tl, tl.core):
        module.reduce = checked(reductions.reduce, "a reduction")
        module.associative_scan = checked(reductions.associative_scan, "a scan")
        module.map_elementwise = map_elementwise
        module.range = names["_triten_range"]
        module.static_assert = static_assert
    tl.tensor.__bool__ = refuse_truth
    tl.tensor.T = property(lambda tensor: semantic.permute(tensor, (1, 0)))
    del tl.tensor.__index__  # a compiled kernel has no number of a tensor either
    interpreter.FunctionRewriter._transform_ast = _transform
    interpreter.InterpretedFunction.__call__ = _call_device_function
    interpreter.FunctionRewriter._compile_and_exec = _compile_rewritten
    _install_libdevice(semantic)
    return builder, semantic, names


_builder, _semantic, _NAMESPACE = _install()
