"""Fake tensors: metadata without data, for recording without computing (torch/_subclasses/fake_tensor.py).

A fake tensor has shape, strides, dtype and device, and knows which tensors share its memory. An operator on fake
tensors runs its Meta kernel; results are fake tensors on the device on which the operator would have computed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ....runtime.allocator import storage_size
from ....runtime.data_ptr import DataPtr
from ....runtime.device import CPU, get_default_device
from ....runtime.device import device as Device
from ....runtime.dispatch_key import AUTOGRAD_BITS, BY_NAME
from ....runtime.errors import two_devices
from ....runtime.generator import Generator
from ....runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard
from ....runtime.storage import root_of
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...autograd.node import leaf_meta
from ...core.bound_arguments import tensors_in
from ...core.op_overload import OpOverload
from ...core.operator_entry import OperatorEntry
from ...core.result_types import result_type_of
from ...structured.meta.copy import resolve_device
from ...tensor import Tensor, blank_tensor
from ..python_key import PYTHON_BIT, below_innermost, split_arguments, without_modes
from .call_looks import call_look
from .make_graph import PLAIN, TracedTensor, Tracer, innermost_tracer, tracers

META = Device("meta")
META_KEYS = BY_NAME["Meta"].bits


class FakeTensor(TracedTensor):
    """A tensor without elements, whose operators a `FakeTracer` answers."""

    __slots__ = ()

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(
            f"{func.name()} got a fake tensor, which stood for an input while make_graph recorded and holds no elements"
        )

    def host_array(self) -> Any:
        raise _no_elements("its value", self)

    def numpy(self, *, force: bool = False) -> Any:
        raise _no_elements("its memory by numpy()", self)

    def data_ptr(self) -> int:
        raise _no_elements("its address by data_ptr()", self)

    def __repr__(self) -> str:
        spec = self._spec
        return f"FakeTensor({spec.dtype.name}{list(spec.sizes)}, device='{spec.device}')"


def _no_elements(operation: str, tensor: FakeTensor) -> RuntimeError:
    step = ""
    for tracer in tracers():
        tracer.has_refused = True
        node = tracer.find(tensor)
        step = step if node is None else f", that of {node.format_node()}"
    return RuntimeError(
        f"It appears that you're trying to get value out of a tracing tensor: {operation}{step}. Under "
        "make_graph(tracing_mode='fake') tensors hold no elements; keep the value a tensor, or record with "
        "tracing_mode='real'."
    )


def phantom(spec: TensorSpec) -> DataPtr:
    """Return a pointer to no memory, with the size of a tensor of this spec."""
    return DataPtr(0, storage_size(spec.sizes, spec.strides) * spec.itemsize, spec.device)


class Result(NamedTuple):
    """One result of a call: its spec; the operand whose memory it shares, None for new memory; and its offset there."""

    spec: TensorSpec
    operand: int | None
    offset: int
    is_view: bool


class Answer(NamedTuple):
    """Cached result of a call, for calls with the same metadata: its results, and how to gather several."""

    results: tuple[Result, ...]
    gather: Callable[[list[Any]], Any] | None

    @staticmethod
    def of(result: Any, operands: Sequence[Any]) -> Answer | None:
        """Return the cache entry of results; None if they are not new, or share memory in an unsupported way."""
        several = isinstance(result, list | tuple)
        rows: list[Result] = []
        roots: set[int] = set()
        for each in result if several else (result,):
            if not isinstance(each, FakeTensor) or each._spec.is_inference:
                return None
            data, spec = each._data, each._spec
            source_indices = [i for i, t in enumerate(operands) if root_of(t._data) is root_of(data)]
            if not source_indices:
                if data.base is not None or id(data) in roots:
                    return None
                roots.add(id(data))
                rows.append(Result(spec, None, data.nbytes, False))
                continue
            source = operands[source_indices[0]]
            if len(source_indices) > 1 or each is source or not isinstance(source, FakeTensor):
                return None
            whole = source if source._view_base is None else source._view_base
            if each._version_cell is not source._version_cell or each._view_base not in (None, whole):
                return None
            offset = data.address - source._data.address
            if (data is source._data) != (offset == 0):
                return None
            rows.append(Result(spec, source_indices[0], offset, each._view_base is not None))
        made_of: Any = getattr(type(result), "_make", type(result)) if several else None
        return Answer(tuple(rows), made_of)

    def again(self, mode: MetaKernels, operands: Sequence[Any]) -> Any:
        """Return the same results for other operands."""
        made: list[Any] = []
        for spec, operand, offset, is_view in self.results:
            tensor = mode.blank()
            tensor._spec, tensor._autograd, tensor._view_base = spec, None, None
            if operand is None:
                tensor._data, tensor._version_cell = DataPtr(0, offset, META), None
            else:
                source = operands[operand]
                tensor._data = source._data.offset_by(offset) if offset else source._data
                tensor._version_cell = source.version_cell()
                if is_view:
                    tensor._view_base = source if source._view_base is None else source._view_base
            made.append(tensor)
        return made[0] if self.gather is None else self.gather(made)


class MetaKernels:
    """Mode that runs operators on fake tensors by their Meta kernels."""

    def __init__(self) -> None:
        self._answers: dict[Any, Answer] = {}

    def blank(self) -> Tensor:
        """Return a fake tensor whose attributes are to be set."""
        return FakeTensor._blank()

    def computed(self, func: OpOverload, values: Sequence[Any]) -> Any:
        """Return the Meta kernel's result, on the device on which the operator would have computed."""
        look = call_look(func._entry, values)
        answer = None if look is None else self._answers.get(look)
        if answer is not None:
            return answer.again(self, tensors_in(values))
        tensors = tensors_in(values)
        metas = {id(t): _meta_of(t) for t in tensors}
        device = self._device_of(func, values, tensors)
        entry = func._entry
        entry.find_runtime_arguments()
        replaced: list[Any] = []
        for position, value in enumerate(values):
            if isinstance(value, TensorImpl):
                replaced.append(metas[id(value)])
            elif isinstance(value, (list, tuple)):
                replaced.append(tuple([metas.get(id(v), v) for v in value]))
            elif isinstance(value, Generator):
                replaced.append(None)
            else:
                replaced.append(META if position in entry.device_positions else value)
        with without_modes(), ExcludeDispatchKeyGuard(AUTOGRAD_BITS):
            result = entry.call_with_keys(META_KEYS, replaced)
        for tensor in tensors:
            if isinstance(tensor, FakeTensor):
                meta = metas[id(tensor)]
                if meta._data is not tensor._data:
                    tensor._data = meta._data
                if (meta._spec.sizes, meta._spec.strides) != (tensor._spec.sizes, tensor._spec.strides):
                    tensor._spec = tensor._spec.replace(sizes=meta._spec.sizes, strides=meta._spec.strides)
        origins = {id(metas[id(t)]): t for t in tensors}
        faked = self._faked(result, origins, device)
        answer = None if look is None else Answer.of(faked, tensors)
        if answer is not None:
            self._answers[look] = answer
        return faked

    def _faked(self, result: Any, origins: dict[int, Any], device: Device) -> Any:
        if isinstance(result, TensorImpl):
            origin = origins.get(id(result))
            if origin is not None:
                return origin
            made = self.blank()
            made._data = result._data
            made._spec = result._spec.replace(device=device, keys=PYTHON_BIT, requires_grad=False)
            made._version_cell, made._autograd = result._version_cell, None
            base = origins.get(id(result._view_base))
            made._view_base = base if base is None or base._view_base is None else base._view_base
            return made
        if isinstance(result, list | tuple):
            made_of: Any = getattr(type(result), "_make", type(result))
            return made_of([self._faked(v, origins, device) for v in result])
        return result

    def _device_of(self, func: OpOverload, values: Sequence[Any], tensors: Iterable[Any]) -> Device:
        """Return the device of the operator's results. Raises RuntimeError for tensors on several devices."""
        entry = func._entry
        entry.find_runtime_arguments()
        for position in entry.device_positions:
            if values[position] is not None:
                return resolve_device(Device(values[position]))
        device: Device | None = None
        for tensor in tensors:
            spec = tensor._spec
            if device is None or (device is CPU and spec.device is not CPU):
                device = spec.device
        for tensor in tensors:
            spec = tensor._spec
            if (
                spec.device is not device
                and not (spec.device is CPU and spec.ndim == 0)
                and func._opname not in _ACROSS_DEVICES
            ):
                raise RuntimeError(f"{func.name()}: {two_devices(device, spec.device)}")
        if func._opname in _ACROSS_DEVICES:
            device = values[0]._spec.device
        return get_default_device() if device is None else device


class FakeTracer(MetaKernels, Tracer):
    """A tracer that runs Meta kernels."""

    def __init__(self) -> None:
        MetaKernels.__init__(self)
        Tracer.__init__(self)
        self._grads: list[tuple[Any, Any]] = []

    def blank(self) -> Tensor:
        made = super().blank()
        self.made.append(weakref.ref(made))
        return made

    def enter_input(self, tensor: Any, name: str) -> Tensor:
        made = self._fake_of(tensor)
        self._inputs.append((tensor, made))
        from .make_graph import described

        self.remember(made, (self.graph.placeholder(name, described(tensor._spec)), ()))
        self._mark_dependent(made)
        return made

    def leave_inputs(self) -> None:
        # An input keeps its state: nothing was computed, and its stand-in may have meaningless gradients.
        for tensor, grad in self._grads:
            tensor._autograd.grad = grad
        self._inputs.clear()
        # A tensor of the program that an in-place call returned keeps its state, too.
        outer = innermost_tracer()
        for reference in self.made:
            made: Any = reference()
            if made.__class__ is TracedTensor:
                if outer is None:
                    made.__class__ = PLAIN
                else:
                    outer.made.append(reference)

    def _fake_of(self, tensor: Tensor) -> Tensor:
        made: Tensor = FakeTensor._blank()
        spec = tensor._spec
        made._spec = spec.replace(keys=PYTHON_BIT)
        made._data = phantom(made._spec)
        made._version_cell = None if spec.is_inference else [0]
        made._autograd = leaf_meta() if spec.requires_grad else None
        made._view_base = None
        return made

    def _constant(self, tensor: TensorImpl) -> Any:
        if tensor._spec.requires_grad and tensor._autograd is not None:
            self._grads.append((tensor, tensor._autograd.grad))
        return super()._constant(tensor)

    def _refuse_alias(self, tensor: TensorImpl) -> None:
        super()._refuse_alias(tensor)
        if isinstance(tensor, FakeTensor):
            raise RuntimeError("make_graph: a fake tensor of another recording reached this one")

    def compute(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the Meta kernel, and return its result on the device on which the operator would have computed."""
        return self.computed(func, func.bind(args, kwargs))

    def handle_bound(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Run `__tensor_dispatch__` on bound arguments."""
        func = OpOverload(op)
        args, kwargs = split_arguments(op, values)
        with below_innermost():
            result = self._recorded(func, args, kwargs, lambda: self.computed(func, values))
        named = result_type_of(op.schema)
        return result if named is None else named(result)


_ACROSS_DEVICES = frozenset({"copy_", "copy", "index", "index_put", "index_put_"})
"""Operators that take tensors on several devices, and compute on the first one's."""


def _meta_of(tensor: TensorImpl) -> Tensor:
    """Return a meta tensor over a fake tensor's phantom memory, or with the metadata of a real tensor."""
    spec = tensor._spec
    meta = blank_tensor()
    meta._spec = spec.replace(device=META, keys=0, requires_grad=False)
    meta._autograd = meta._view_base = None
    if isinstance(tensor, FakeTensor):
        meta._data = tensor._data
        meta._version_cell = None if spec.is_inference else tensor.version_cell()
    else:
        meta._data, meta._version_cell = phantom(meta._spec), None
    return meta
