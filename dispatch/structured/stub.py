"""Stubs: one name under which each device registers its kernel (ATen/native/DispatchStub.h).

A device registers a *kernel factory*. A plan calls the factory once with the `StructuredCall`. The factory reads
dtypes, sizes and strides, and returns the function that computes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.device import check_device_type, on_rename
from ...runtime.device import device as Device
from ...runtime.device_guard import DeviceGuard
from ...runtime.lazy_import import executing_body, is_executed_again, is_imported
from ...runtime.scalar_type import (
    EXPONENTS,
    PACKED,
    SUB_BYTE,
    bool_,
    complex32,
    int32,
    int64,
    only_stored,
)
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..iterator.tensor_iterator import TensorIterator
from .choices import listeners
from .complex_half import BY_OUTPUT, holds_complex_half, refusal, serves_complex_half
from .supported_dtypes import DTYPES, check_dtype, kernel_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...runtime.data_ptr import DataPtr


class StructuredCall(NamedTuple):
    """Input of a kernel factory: everything about a call except the bytes.

    `args` maps schema names to specs (tensors), classes (Python numbers) or values (everything static);
    `runtime` names, in order, the arguments that the kernel is called with after the outputs.
    """

    name: str
    args: dict[str, Any]
    runtime: tuple[str, ...]
    outputs: tuple[TensorSpec, ...]
    iterator: TensorIterator | None
    device: Device
    extra: dict[str, Any]

    def kernel_name(self) -> str:
        """Return the name in PyTorch's refusals, such as ``sigmoid_cpu``."""
        return kernel_name(self.name, self.device.type)

    @property
    def dtype(self) -> ScalarType | None:
        """The dtype that selects the kernel: the common dtype, or the first tensor's; None without tensors."""
        if self.iterator is not None and self.iterator.common_dtype is not None:
            return self.iterator.common_dtype
        for value in (*self.args.values(), *self.outputs):
            for spec in value if isinstance(value, tuple) else (value,):
                if isinstance(spec, TensorSpec):
                    return spec.dtype
        return None

    @property
    def common_dtype(self) -> ScalarType:
        """The dtype to which operands are cast: the meta function's, or the iterator's."""
        named: ScalarType | None = self.extra.get("common_dtype")
        if named is None and self.iterator is not None:
            named = self.iterator.common_dtype
        assert named is not None
        return named

    def refuse(self, spec: TensorSpec) -> NotImplementedError:
        """Return PyTorch's error for a dtype that the kernel does not have."""
        return NotImplementedError(f"\"{self.kernel_name()}\" not implemented for '{spec.dtype.scalar_name}'")


class ElementFunction(NamedTuple):
    """Per-element function of a pointwise CUDA kernel, for planners that fuse several into one kernel.

    `function` is a `@triton.jit` function of the operands in these Triton `types`; its result is converted to the
    output's dtype. `operands` are the positions of its operands among the kernel's arguments after the output.
    `prepare` turns each operand into a launch argument: an address, or a number in range.
    """

    function: Any
    types: tuple[Any, ...]
    operands: tuple[int, ...]
    prepare: tuple[Callable[[Any], Any], ...]


class PlannedKernel(NamedTuple):
    """A kernel ready to run on bytes.

    `into(*outputs, *inputs)` writes to given outputs; `fresh(*inputs)`, where there is one, returns a new contiguous
    array, for host results that NumPy may allocate itself. With `quiet`, the plan ignores floating-point errors. A
    kernel may depend on dtypes alone if all operands are contiguous. It then serves other shapes, up to `any_shape`
    elements; `sized`, if set, rebuilds it for the output's sizes. `first(*inputs)` returns a new array of the first of
    several outputs if the caller needs no other output; it is called as if `quiet`. `number` is `fresh` for one output
    without dimensions: a new 0-d array, where NumPy's own result would be a scalar. `unshared` is `into` for one output
    that overlaps no input, if that saves a check. `element` is the per-element function of a pointwise CUDA kernel.
    """

    into: Callable[..., Any]
    fresh: Callable[..., Any] | None = None
    quiet: bool = False
    any_shape: int = 0
    sized: Callable[[tuple[int, ...]], Any] | None = None
    first: Callable[..., Any] | None = None
    unshared: Callable[..., Any] | None = None
    number: Callable[..., Any] | None = None
    element: ElementFunction | None = None


class HostKernel(NamedTuple):
    """A composite's kernel on the host, ready to run on arrays (see `plans/host_kernel.py`).

    `outputs` are the specs of its results, which have no meta function. They are None for gradients that an output mask
    leaves out, and `into` then receives None. `fresh(*arguments)` returns a new array for
    each of them, in the strides of its spec: one array, or a tuple of several. It serves small outputs; without `into`,
    the composite computes larger ones. `into(*arrays, *arguments)` writes to outputs of any size. With `quiet`, the
    plan ignores floating-point errors. If the kernel `declines`, `fresh` returns None, and `into` False, for values
    that the composite handles.
    """

    outputs: tuple[TensorSpec | None, ...]
    fresh: Callable[..., Any] | None
    into: Callable[..., Any] | None = None
    quiet: bool = True
    declines: bool = True

    @staticmethod
    def of(kernel: PlannedKernel, *outputs: TensorSpec) -> HostKernel:
        """Return the host kernel of a structured operator's kernel."""
        fresh = kernel.fresh if outputs[0].ndim else kernel.number
        if not all(spec.is_contiguous for spec in outputs):
            fresh = None
        return HostKernel(outputs, fresh, kernel.unshared or kernel.into, kernel.quiet, declines=False)


KernelFactory = Callable[[StructuredCall], PlannedKernel]
HostKernelFactory = Callable[[StructuredCall], HostKernel | None]
"""Host-kernel factory of a composite, called without outputs; it returns None to leave a call to the composite."""


def by_arguments(factory: Callable[..., HostKernel | None]) -> HostKernelFactory:
    """Return the factory of a host kernel from a function of the operator's arguments (`StructuredCall.args`)."""
    return lambda call: factory(*call.args.values())


def followed_by(function: Callable[..., Any], constant: Any) -> Callable[[Any], Any]:
    """Return a kernel's `fresh` of one input: `function` of the input and a constant.

    A plan that recognizes the result's marks calls `function` directly, without an intermediate Python function.
    """

    def fresh(array: Any) -> Any:
        return function(array, constant)

    fresh.__dict__.update(function=function, followed_by=constant)
    return fresh


def with_defaults(factory: KernelFactory) -> KernelFactory:
    """Return a factory whose kernel is called with all of an operator's arguments, including numbers at their defaults.

    A plan omits numbers at their defaults, and a kernel with several could not tell which ones.
    """

    def complete(call: StructuredCall) -> PlannedKernel:
        names = tuple(call.args)
        if call.runtime == names:
            return factory(call)
        left_out = {name: call.args[name] for name in names if name not in call.runtime}
        kinds = {name: type(value) for name, value in left_out.items()}
        kernel = factory(call._replace(runtime=names, args=call.args | kinds))
        into, fresh = kernel.into, kernel.fresh
        given_first = names[: len(call.runtime)] == call.runtime
        if given_first and fresh is not None:
            tail = tuple([left_out[name] for name in names[len(call.runtime) :]])
            return PlannedKernel(
                lambda out, *given: into(out, *given, *tail),
                lambda *given: fresh(*given, *tail),
                kernel.quiet,
            )
        positions = [names.index(name) for name in call.runtime]
        template = [left_out.get(name) for name in names]

        def filled(out: DataPtr | NDArray[Any], *args: Any) -> None:
            values = template.copy()
            for position, value in zip(positions, args, strict=True):
                values[position] = value
            into(out, *values)

        return PlannedKernel(filled, quiet=kernel.quiet)

    return complete


HOST_STUB = "_host_stub"
"""Suffix of the stubs of composites' host kernels: ``linalg_det_host_stub``."""
OWN = frozenset({"cpu", "cuda", "meta"})
"""Device types whose kernels are this package's own."""
on_register: list[Callable[[str, str], None]] = []
"""Functions called with a stub and a device type of another package that now has a kernel there."""

Loader = Callable[[str | None], object]
"""Functions that import the registration of a kernel by name, which may be unknown; None imports all kernels."""

loopers: dict[str, Callable[[str, KernelFactory], KernelFactory]] = {}
"""Function by stub that later adds compiled loops to the CPU's kernels (`compiled_loops.py`)."""

_stubs: dict[str, dict[str, Callable[[StructuredCall], Any]]] = {}
_bodies: dict[tuple[str, str], dict[str, Any] | None] = {}
"""The namespace of the module whose body registered each kernel."""
_loaders: dict[str, Loader] = {}
_preparations: dict[str, Callable[[], object]] = {}


def register_stub(name: str, device_type: str, factory: KernelFactory | HostKernelFactory) -> None:
    """Register a device's kernel factory under a stub, for all forms of the stub's operators.

    The meta functions of this package check the arguments and decide shapes, dtypes and strides; the factory gets the
    `StructuredCall` once for a plan and returns a `PlannedKernel`. A kernel that is registered for an operator's
    dispatch key comes before the stub's. A module whose import was interrupted is executed again when it is imported
    again, and its second execution then replaces what the first one registered.

    Args:
        name: ``<operator>_stub``, as in ``dispatch/native_functions/``.
        device_type: Current name of the device type.
        factory: Function that makes a kernel over `DataPtr`.

    Raises:
        RuntimeError: for a second factory, and for an unknown device type.

    Example::

        def add(call):
            sizes = call.outputs[0].sizes

            def into(out, self, other):
                my_add(out.address, self.address, other.address, math.prod(sizes))

            return tt.library.PlannedKernel(into)

        tt.library.register_stub("add_stub", "npu", add)
    """
    if device_type in OWN:
        # A second registration fails here, not later when the package's own kernel is requested.
        load_kernels(device_type, name)
    else:
        device_type = check_device_type(device_type)
    kernels, body = _stubs.setdefault(name, {}), executing_body()
    if device_type in kernels and not is_executed_again(_bodies.get((name, device_type)), body):
        raise RuntimeError(f"stub {name} has a {device_type} kernel already: {kernels[device_type]}")
    # In this order: after an interrupt between the two, the next execution may still register.
    _bodies[name, device_type] = body
    kernels[device_type] = factory
    if device_type not in OWN:
        for registered in on_register:
            registered(name, device_type)


def register_loader(device_type: str, load: Loader, prepare: Callable[[], object] | None = None) -> None:
    """Register `load` to import a backend's kernels on first request, after `prepare` if it is given."""
    _loaders[device_type] = load
    if prepare is not None:
        _preparations[device_type] = prepare


def load_kernels(device_type: str, name: str | None = None) -> None:
    """Import a backend's kernel, or all kernels for a listing, unless they are loaded."""
    if device_type in _loaders:
        _loaders[device_type](name)


def _factory_of(name: str, device_type: str) -> Callable[[StructuredCall], Any] | None:
    """Return the registered factory, after importing its module.

    A registered factory may come from an interrupted import, and lack later definitions of its module.
    """
    factory = _stubs.get(name, {}).get(device_type)
    if factory is not None and is_imported(_bodies.get((name, device_type))):
        return factory
    for stub_name in (name, None):
        load_kernels(device_type, stub_name)
        factory = _stubs.get(name, {}).get(device_type)
        if factory is not None or device_type not in _loaders:
            return factory
    return None


def find_kernel(name: str, device_type: str, operator: str) -> KernelFactory:
    """Return the factory of a stub on a device. Raises NotImplementedError if there is none; there is no fallback."""
    prepare = _preparations.get(device_type)
    if prepare is not None:
        prepare()
        _preparations.pop(device_type, None)
    factory = _factory_of(name, device_type)
    if factory is None:
        raise _missing(name, device_type, operator)
    for listener in listeners:
        listener.on_stub(name, device_type, factory)
    if device_type == "cpu" and name in loopers:
        factory = loopers[name](name, factory)
    own = factory
    if not serves_complex_half(name, device_type):
        factory = without_complex_half(name, factory)
    factory = refusing(name, factory)
    if name.removesuffix("_stub") in DTYPES:
        factory = declared(name.removesuffix("_stub"), factory)
    if device_type not in OWN:
        factory = guarding(factory)
    if recorders:
        return recording(factory)
    if device_type in OWN:
        factory.checked = own  # type: ignore[attr-defined]
    return factory


def for_checked(factory: KernelFactory) -> KernelFactory:
    """Return a factory of `find_kernel` without its dtype checks, for another call of a checked kind."""
    checked: KernelFactory = getattr(factory, "checked", factory)
    return checked


def find_host_kernel(name: str) -> HostKernelFactory:
    """Return the factory of a composite's kernel on the host. Raises NotImplementedError for a stub without one."""
    factory = _factory_of(name, "cpu")
    if factory is None:
        raise _missing(name, "cpu", name.removesuffix(HOST_STUB))
    for listener in listeners:
        listener.on_stub(name, "cpu", factory)
    return factory


def _missing(name: str, device_type: str, operator: str) -> NotImplementedError:
    """Return the error for a stub without a kernel on a device."""
    for known in _loaders:
        load_kernels(known, name)
    having = ", ".join(sorted(_stubs.get(name, {}))) or "none"
    return NotImplementedError(
        f"Could not run 'aten::{operator}' on '{device_type}': its stub '{name}' has no kernel there. "
        f"Devices with one: {having}."
    )


def has_kernel(name: str, device_type: str) -> bool:
    """Return True if planners may request a stub's kernel on a device; always True on this package's devices."""
    return device_type in OWN or device_type in _stubs.get(name, {})


def is_registered(name: str, device_type: str) -> bool:
    """Return True if a device has a stub's kernel, including this package's own devices."""
    return _factory_of(name, device_type) is not None


def foreign_device_types(name: str) -> list[str]:
    """Return the device types of other packages that have a stub's kernel."""
    return [device_type for device_type in _stubs.get(name, ()) if device_type not in OWN]


def _follow_rename(old: str, new: str) -> None:
    for name, kernels in _stubs.items():
        if old in kernels:
            _bodies[name, new] = _bodies.get((name, old))
            kernels[new] = kernels.pop(old)


on_rename.append(_follow_rename)


MOVING = frozenset(
    f"{name}_stub"
    for name in (
        *("cat", "copy", "eq", "fill", "flip", "gather", "index", "index_copy", "index_masked", "index_put"),
        *("index_select", "masked_fill", "ne", "nonzero", "scatter", "take", "tril", "triu", "where", "zero"),
    )
)
"""Stubs whose kernels compute nothing, which storage-only dtypes support."""
BYTEWISE = frozenset({"cat_stub", "zero_stub"})
"""Stubs that sub-byte integers also support, as PyTorch writes their bytes without a kernel for each dtype."""
BYTES = frozenset({EXPONENTS, PACKED})
"""Dtypes without a Triton type, which its kernels treat as bytes."""
READING = frozenset({"_scaled_mm_stub"})
"""Stubs whose kernels split such dtypes and check dtypes themselves."""


def declared(operator: str, factory: KernelFactory) -> KernelFactory:
    """Wrap `factory` to refuse the dtypes that the operator does not declare."""

    def made(call: StructuredCall) -> PlannedKernel:
        common = call.extra.get("common_dtype") or call.dtype
        if common is not None:
            check_dtype(operator, common, call.device)
        return factory(call)

    return made


def without_complex_half(name: str, factory: KernelFactory) -> KernelFactory:
    """Wrap `factory` to refuse complex32."""

    def made(call: StructuredCall) -> PlannedKernel:
        if computes_complex_half(name, call):
            raise refusal(name, call.name, call.device.type)
        return factory(call)

    return made


def computes_complex_half(name: str, call: StructuredCall) -> bool:
    """Return True if a call computes in complex32: its common dtype, or without one any tensor's dtype."""
    common = call.extra.get("common_dtype") or (call.iterator and call.iterator._common_dtype)
    if common is not None:
        return common is complex32
    inputs = () if name in BY_OUTPUT else call.args.values()
    return holds_complex_half((*inputs, *call.outputs))


def refusing(name: str, factory: KernelFactory) -> KernelFactory:
    """Wrap `factory` to refuse storage-only dtypes unless the kernel only moves or reads elements."""

    def made(call: StructuredCall) -> PlannedKernel:
        if not holds_stored(call):
            return factory(call)
        adds = call.args.get("accumulate") is True or call.args.get("reduce") is not None
        if (name not in MOVING or adds) and name not in READING:
            refused: Container[ScalarType] = only_stored
        else:
            refused = () if name in BYTEWISE else SUB_BYTE
        if refused:
            for spec in _computed(call):
                if spec.dtype in refused:
                    # PyTorch's name for the kernel that serves both.
                    kernel = "add_stub" if name in ("add_stub", "sub_stub") else call.kernel_name()
                    raise NotImplementedError(f"\"{kernel}\" not implemented for '{spec.dtype.scalar_name}'")
        if name == "copy_stub":
            check_packed(call)
        elif name in MOVING and call.device.type == "cuda":
            check_bytes(name, call)
        return factory(call)

    return made


def holds_stored(call: StructuredCall) -> bool:
    """Return True if any tensor of a call has a storage-only dtype. New shapes pay for this check each time."""
    for value in (*call.outputs, *call.args.values()):
        kind = value.__class__
        if kind is TensorSpec:
            if value.dtype in only_stored:
                return True
        elif kind is tuple:
            for each in value:
                if each.__class__ is TensorSpec and each.dtype in only_stored:
                    return True
    return False


def check_packed(call: StructuredCall) -> None:
    """Refuse to convert sub-byte elements, with PyTorch's message. Raises NotImplementedError."""
    dtypes = {spec.dtype for spec in (*call.args.values(), *call.outputs) if isinstance(spec, TensorSpec)}
    if PACKED in dtypes and len(dtypes) > 1:
        raise NotImplementedError(f"\"copy_\" not implemented for '{PACKED.scalar_name}'")


FILLING = frozenset({"fill_stub", "zero_stub"})
"""Stubs whose CUDA kernels interpret stored bytes."""
COMPARING = frozenset({"eq_stub", "ne_stub"})
"""Stubs that interpret the bytes of powers of two."""


def check_bytes(name: str, call: StructuredCall) -> None:
    """Refuse conversions from and to dtypes that CUDA kernels move as bytes. Raises NotImplementedError."""
    values: list[Any] = list(call.outputs)
    for value in call.args.values():
        values += value if isinstance(value, tuple) else (value,)
    dtypes = {value.dtype for value in values if isinstance(value, TensorSpec)} - {bool_, int32, int64}
    own = dtypes & BYTES
    if not own or name in FILLING or (name in COMPARING and PACKED not in own):
        return
    if len(dtypes) > 1 or any(isinstance(value, type) for value in values):
        raise NotImplementedError(f"\"{call.kernel_name()}\" not implemented for '{own.pop().scalar_name}'")


def _computed(call: StructuredCall) -> list[TensorSpec]:
    """Return the tensors whose dtypes a kernel computes in, without inputs that are cast to another common dtype."""
    common = None if call.iterator is None else call.iterator._common_dtype
    values: list[Any] = list(call.outputs)
    for value in call.args.values():
        values += value if isinstance(value, tuple) else (value,)
    specs = [value for value in values if isinstance(value, TensorSpec)]
    return [spec for spec in specs if common is None or spec.dtype is common or spec in call.outputs]


def guarding(factory: KernelFactory) -> KernelFactory:
    """Wrap `factory`: its kernels run with their tensors' device as the current device."""

    def made(call: StructuredCall) -> PlannedKernel:
        return _guarded(factory(call), call.device)

    return made


def _guarded(kernel: PlannedKernel, device: Device) -> PlannedKernel:
    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*data: Any) -> Any:
            with DeviceGuard(device):
                return function(*data)

        return call

    sized = kernel.sized
    return kernel._replace(
        into=guarded(kernel.into),
        fresh=None if kernel.fresh is None else guarded(kernel.fresh),
        first=None if kernel.first is None else guarded(kernel.first),
        unshared=None if kernel.unshared is None else guarded(kernel.unshared),
        number=None if kernel.number is None else guarded(kernel.number),
        sized=None if sized is None else lambda sizes: _guarded(sized(sizes), device),
    )


Recorder = Callable[[str, ScalarType | None, Callable[..., Any]], Callable[..., Any]]

recorders: list[Recorder] = []
"""Wrappers of every run of every kernel, applied when plans are made: given the kernel's name, its dtype and
its function, each returns a replacement.

See `record_kernels`.

The caller that appends or removes a wrapper must make the dispatcher forget all
plans.
"""


def recording(factory: KernelFactory) -> KernelFactory:
    """Wrap `factory`: its kernels run inside the recorders; each serves the shapes of one plan only."""

    def made(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)
        name, dtype = call.kernel_name(), call.dtype
        into, fresh = kernel.into, kernel.fresh
        for record in recorders:
            into = record(name, dtype, into)
            fresh = None if fresh is None else record(name, dtype, fresh)
        return PlannedKernel(into, fresh, kernel.quiet)

    return made


def stub_names(device_type: str) -> Sequence[str]:
    """Return the sorted stubs that have a kernel on a device."""
    return sorted(name for name, kernels in _stubs.items() if device_type in kernels)
