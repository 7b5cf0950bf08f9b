"""CPU fallback for another backend (at::native::cpu_fallback)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.dispatch_key import BY_NAME
from ...runtime.dispatch_key_set import DispatchKeySet
from ...runtime.fork_lock import forkable
from ...runtime.generator import Generator
from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from ..core.operator_entry import OperatorEntry
from ..schema import FunctionSchema

_CPU_BITS = BY_NAME["CPU"].bits
_warned: set[str] = set()
_lock = forkable(threading.Lock())


def cpu_fallback(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Run an operator on the CPU for a backend without a kernel for it; serves as a backend's whole fallback.

    Tensors are copied to the CPU and results back. Arguments that the operator wrote to are updated. A generator of
    the backend is emulated on the CPU and advanced. The first call of an operator warns.

    Raises:
        NotImplementedError: for a view operator, whose result cannot share memory across devices, and for an operator
            that the CPU has no kernel for.

    Example::

        lib = tt.library.Library("_", "IMPL")
        lib.fallback(tt.library.cpu_fallback, "PrivateUse1")
    """
    schema = op.schema
    device = target_device(stack)
    if is_view(schema):
        raise NotImplementedError(
            f"The operator {op.name} appears to be a view operator, but it has no implementation for the backend "
            f"\"{device}\". View operators don't support falling back to run on the CPU, since the tensor's storage "
            "cannot be shared across devices."
        )
    warn_once(op, device)
    arrivals = _Arrivals()
    arguments = [arrivals.on_cpu(value) for value in stack]
    result = op.call_with_keys(_CPU_BITS, arguments)
    returned = result if len(schema.returns) > 1 else () if not schema.returns else (result,)
    arrivals.write_back(written_among(schema, stack))
    arrivals.advance_generators()
    stack[:] = [arrivals.back(value, device) for value in returned]


def target_device(args: Sequence[Any]) -> Device:
    """Return the device of results: that of the first tensor that is not on the CPU, else the device argument."""
    tensors = tensors_in(args)
    for tensor in tensors:
        if tensor._spec.device is not CPU:
            return tensor._spec.device
    named = next((value for value in args if isinstance(value, Device)), None)
    return named if named is not None else CPU


def is_view(schema: FunctionSchema) -> bool:
    """Return whether an operator returns an argument's memory without having written to it."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def written_among(schema: FunctionSchema, args: Sequence[Any]) -> list[TensorImpl]:
    """Return the tensors that an operator writes to."""
    return tensors_in([v for v, a in zip(args, schema.arguments, strict=True) if a.is_write])


def warn_once(op: OperatorEntry, device: Device) -> None:
    """Warn of an operator's first fallback."""
    with _lock:
        if op.name in _warned:
            return
        _warned.add(op.name)
    warnings.warn(
        f"The operator '{op.name}' is not currently supported on the {device.type.upper()} backend and will fall back "
        "to run on the CPU. This may have performance implications.",
        UserWarning,
        stacklevel=2,
    )


class _Arrivals:
    """Copies on the CPU for one call, so that a tensor is copied once and found again."""

    def __init__(self) -> None:
        self.pairs: dict[int, tuple[Any, Any]] = {}
        self.generators: list[tuple[Generator, Generator]] = []

    def on_cpu(self, value: Any) -> Any:
        """Return an argument as the CPU kernel receives it."""
        if isinstance(value, TensorImpl):
            if value._spec.device is CPU and not value._spec.requires_grad:
                return value
            if id(value) not in self.pairs:
                tensor: Any = value
                self.pairs[id(value)] = (value, tensor.detach().to("cpu"))
            return self.pairs[id(value)][1]
        if isinstance(value, tuple | list):
            return tuple([self.on_cpu(each) for each in value])
        if isinstance(value, Device):
            return CPU
        if isinstance(value, Generator) and value.device is not CPU:
            standing_in = value.__class__("cpu")
            standing_in.set_state_bytes(value.state_bytes())
            self.generators.append((value, standing_in))
            return standing_in
        return value

    def write_back(self, written: Sequence[TensorImpl]) -> None:
        """Copy written values back to the caller's tensors."""
        for original in written:
            if id(original) in self.pairs:
                target: Any = original
                made = self.pairs[id(original)][1]
                if made._spec.sizes != original._spec.sizes:
                    target.resize_(made._spec.sizes)
                target.detach().copy_(made)

    def advance_generators(self) -> None:
        """Advance the backend's generators to the states of their substitutes."""
        for generator, standing_in in self.generators:
            generator.set_state_bytes(standing_in.state_bytes())

    def back(self, value: Any, device: Device) -> Any:
        """Return a result on the backend's device; a returned argument is the caller's own tensor."""
        if isinstance(value, TensorImpl):
            for original, moved in self.pairs.values():
                if moved is value:
                    return original
            tensor: Any = value
            return tensor.to(device)
        if isinstance(value, tuple | list):
            return [self.back(each, device) for each in value]
        return value
