"""Stubs: one name under which each device registers its kernel (ATen/native/DispatchStub.h).

What is registered is a *kernel factory*: called once for a plan with the `StructuredCall`, it looks at
dtypes, sizes and strides, and returns the function that computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..iterator.tensor_iterator import TensorIterator


class StructuredCall(NamedTuple):
    """What a kernel factory knows: everything but the bytes.

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
        """The name in PyTorch's refusals, such as ``sigmoid_cpu``."""
        return f"{self.name.strip('_')}_{self.device.type}"

    @property
    def dtype(self) -> ScalarType | None:
        """The dtype that the kernel was chosen for: the common one, or the first tensor's; None without tensors."""
        if self.iterator is not None and self.iterator.common_dtype is not None:
            return self.iterator.common_dtype
        for value in (*self.args.values(), *self.outputs):
            for spec in value if isinstance(value, tuple) else (value,):
                if isinstance(spec, TensorSpec):
                    return spec.dtype
        return None

    def refuse(self, spec: TensorSpec) -> NotImplementedError:
        """PyTorch's error for a dtype that the kernel does not have."""
        return NotImplementedError(f"\"{self.kernel_name()}\" not implemented for '{spec.dtype.scalar_name}'")


class PlannedKernel(NamedTuple):
    """A kernel ready to run on bytes.

    `into(*outputs, *inputs)` writes to given outputs; `fresh(*inputs)`, where there is one, returns a new
    contiguous array, for host results that NumPy may allocate itself. `quiet` has the plan call them with
    floating-point errors ignored; such kernels raise no RuntimeError of their own. A kernel that depends on
    dtypes alone as long as all operands are contiguous serves other shapes too, up to `any_shape` elements;
    `sized`, where there is one, makes it anew for the output's sizes.
    """

    into: Callable[..., Any]
    fresh: Callable[..., Any] | None = None
    quiet: bool = False
    any_shape: int = 0
    sized: Callable[[tuple[int, ...]], Any] | None = None


KernelFactory = Callable[[StructuredCall], PlannedKernel]

_stubs: dict[str, dict[str, KernelFactory]] = {}
_loaders: dict[str, Callable[[], object]] = {}


def register_stub(name: str, device_type: str, factory: KernelFactory) -> None:
    """Register a device's kernel factory under a stub. Raises RuntimeError for a second one."""
    kernels = _stubs.setdefault(name, {})
    if device_type in kernels:
        raise RuntimeError(f"stub {name} has a {device_type} kernel already: {kernels[device_type]}")
    kernels[device_type] = factory


def register_loader(device_type: str, load: Callable[[], object]) -> None:
    """Have `load` import a backend's kernels when one of them is first wanted."""
    _loaders[device_type] = load


def find_kernel(name: str, device_type: str, operator: str) -> KernelFactory:
    """The factory of a stub on a device. Raises NotImplementedError where there is none; nothing falls back."""
    factory = _stubs.get(name, {}).get(device_type)
    if factory is None and device_type in _loaders:
        _loaders[device_type]()
        _loaders.pop(device_type, None)
        factory = _stubs.get(name, {}).get(device_type)
    if factory is None:
        having = ", ".join(sorted(_stubs.get(name, {}))) or "none"
        raise NotImplementedError(
            f"Could not run 'aten::{operator}' on '{device_type}': its stub '{name}' has no kernel there. "
            f"Devices with one: {having}."
        )
    return recording(factory) if recorders else factory


Recorder = Callable[[str, ScalarType | None, Callable[..., Any]], Callable[..., Any]]

recorders: list[Recorder] = []
"""What stands around every run of every kernel, put there when plans are made: given the kernel's name, its dtype and
the function that computes, each returns a function for its place. See `record_kernels`.

Whoever appends or removes one has the dispatcher forget all plans.
"""


def recording(factory: KernelFactory) -> KernelFactory:
    """`factory`, its kernels surrounded by the recorders; each serves the shapes of one plan only."""

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
    """The stubs that have a kernel on a device, sorted."""
    return sorted(name for name, kernels in _stubs.items() if device_type in kernels)
