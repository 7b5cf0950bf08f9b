"""One functionalized call: handles that replace tensors, and how operators run on them
(ATen/FunctionalTensorWrapper.h).

Tensors of the program are handles (`FunctionalTensor`) of immutable values (see `storage`). A mutating operator runs as
its functional form, whose result replaces the value of its target. A view is recorded and recomputed when the value of
its base changes.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from ....runtime.data_ptr import DataPtr
from ....runtime.device import device as Device
from ....runtime.dispatch_key import AUTOGRAD_BITS, BY_NAME, Functionality, functionality_bit
from ....runtime.generator import Generator
from ....runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard, local
from ....runtime.storage import address_of, root_of
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ....runtime.thread_state import inherited
from ...autograd.creation import creation_of, mark_unrecorded
from ...autograd.node import edge_of
from ...autograd.tangents import FORWARD_BIT, set_tangents, tangents_of
from ...core.bound_arguments import tensors_in
from ...core.dispatcher import Dispatcher
from ...core.operator_entry import IMPLICIT, OperatorEntry
from ...core.tensor_function import disabled_tensor_function, plain_classes
from ...schema import FunctionSchema
from ...tensor import Tensor, blank_tensor
from ..graph.call_looks import call_look
from ..levels import VmapLevel, current_levels
from ..python_key import bound_handler, without_modes
from ..pytree import tree_map
from .derived_form import is_derived, map_tensors
from .form import functional_arguments, functional_form, returned, settled
from .storage import FunctionalData, FunctionalStorage, Step, forward, fresh_root

FUNCTIONALIZE = BY_NAME["Functionalize"]
FUNCTIONALIZE_BIT = functionality_bit(Functionality.Functionalize)
META = Device("meta")
META_KEYS = BY_NAME["Meta"].bits


class Layers(threading.local):
    """The functionalized functions that this thread runs, outermost first."""

    def __init__(self) -> None:
        self.active: list[Layer] = []


layers = inherited(Layers())


class FunctionalTensor(Tensor):
    """Handle of a value while a function is functionalized."""

    __slots__ = ()
    __tensor_function__: Any = disabled_tensor_function

    @classmethod
    def _blank(cls) -> Self:
        made = super()._blank()
        if layers.active:
            layers.active[-1].live.append(weakref.ref(made))
        return made

    def _current(self) -> Any:
        data = self._data
        with data.storage.layer.below():
            return data.storage.layer.value_of(self)

    def host_array(self) -> Any:
        return self._current().host_array()

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(
            "numpy() inside functionalize: a functional tensor has no memory to share; use tolist() for its values, or "
            "take the array outside"
        )

    def data_ptr(self) -> int:
        raise RuntimeError("data_ptr() inside functionalize: a functional tensor has no memory")

    def untyped_storage(self) -> Any:
        raise RuntimeError("untyped_storage() inside functionalize: a functional tensor has no memory")


plain_classes.add(FunctionalTensor)


class _View(NamedTuple):
    """View of a tensor: its spec, its byte offset, and whether it references the tensor.

    Writes are counted with those of the tensor, or in `version`.
    """

    spec: TensorSpec
    offset: int
    is_tracked: bool
    counts_with_it: bool
    version: list[int] | None


class _Below:
    """A thread below a layer and below autograd."""

    __slots__ = ("active", "guard", "layer")

    def __init__(self, layer: Layer) -> None:
        self.layer, self.active = layer, layers.active
        self.guard = ExcludeDispatchKeyGuard(AUTOGRAD_BITS | FORWARD_BIT)

    def __enter__(self) -> None:
        active = self.active
        self.guard.__enter__()
        layers.active = active[: active.index(self.layer)] if self.layer in active else active
        if not layers.active:
            local.included &= ~FUNCTIONALIZE_BIT

    def __exit__(self, *error: Any) -> None:
        layers.active = self.active
        self.guard.__exit__(*error)


class Layer:
    """One functionalized call: its handles, and how operators run on them.

    Args:
        copies: If True, views are copied.
        adopts: If True, tensors that the function closes over may be written to, like arguments.
    """

    def __init__(self, copies: bool, adopts: bool = False) -> None:
        self.copies = copies
        self.adopts = adopts
        self.live: list[weakref.ref[Any]] = []
        self._storages: dict[int, list[FunctionalStorage]] = {}
        self._handles: dict[int, tuple[Any, Any]] = {}
        self._inputs: list[tuple[Any, Any, _Saved]] = []
        self._gradients: list[tuple[Any, Any]] = []
        self._tangents: list[tuple[Any, Any]] = []
        self._depth = len(current_levels())
        self._views: dict[Any, _View] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this thread's operators run in this layer."""
        layers.active.append(self)
        try:
            with IncludeDispatchKeyGuard(FUNCTIONALIZE_BIT):
                yield
        finally:
            layers.active.pop()

    def below(self) -> _Below:
        """Enter this thread below the layer and below autograd, where values are computed."""
        return _Below(self)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call an operator on values, by its full name; `args` may omit trailing arguments."""
        entry = Dispatcher.singleton().find_schema_or_throw(name)
        if kwargs or len(args) != len(entry.schema.arguments):
            from ...core.op_overload import OpOverload

            arguments = entry.schema.arguments
            positional = [v for v, a in zip(args, arguments, strict=False) if not a.kwarg_only]
            named = {a.name: v for v, a in zip(args, arguments, strict=False) if a.kwarg_only}
            return OpOverload(entry)(*positional, **named, **kwargs)
        return self._computed(entry, args)

    def _computed(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Call an operator on all of its arguments as values. The caller is below the layer."""
        handle = bound_handler(op, values)
        return op.call(*values) if handle is None else handle(op, values)

    def enter(self, tensor: Any) -> Tensor:
        """Return the handle of an argument: the same tensor to autograd, with a value instead of memory."""
        if tensor._spec.requires_grad:
            # The end of the graph must reference the caller's tensor, not the handle.
            edge_of(tensor)
        if tensor._autograd is not None and tensor._autograd.grad is not None:
            grad = tensor._autograd.grad
            if not any(owner._autograd is tensor._autograd for owner, _ in self._gradients):
                self._gradients.append((tensor, grad))
                tensor._autograd.grad = self.enter(grad)
        saved = _Saved(tensor)
        handle = self._handle_of(tensor)
        storage: FunctionalStorage = handle._data.storage
        storage.is_input = True
        handle._spec = handle._spec.replace(requires_grad=tensor._spec.requires_grad)
        handle._autograd, handle._view_base = tensor._autograd, tensor._view_base
        tangents = tangents_of(tensor)
        if tangents and not any(meta is tensor._autograd for meta, _ in self._tangents):
            self._tangents.append((tensor._autograd, tangents))
            entered = {level: self.enter(tangent) for level, tangent in tangents.items()}
            set_tangents(handle, entered)
        self._inputs.append((tensor, handle, saved))
        return handle

    def _handle_of(self, tensor: Tensor) -> Tensor:
        """Return a handle of an external tensor, in the storage of its memory."""
        spec = tensor._spec
        address = address_of(tensor._data)
        storage = self._storage_of(tensor)
        if storage is None:
            root = root_of(tensor._data)
            phantom = DataPtr(address_of(root), root.nbytes, spec.device)
            plain = spec.replace(requires_grad=False, keys=0)
            storage = FunctionalStorage(self, tensor, plain, phantom, tensor)
            self._storages.setdefault(id(root), []).append(storage)
        steps = _steps_within(storage, tensor)
        nbytes = storage.root.address + storage.root.nbytes - address
        data = FunctionalData(address, nbytes, storage.root, storage, steps)
        return self._made(data, spec, None if spec.is_inference else tensor.version_cell())

    def _storage_of(self, tensor: Tensor) -> FunctionalStorage | None:
        """Return the storage that shares memory with an external tensor."""
        known = self._storages.get(id(root_of(tensor._data)))
        return None if known is None else next((s for s in known if _overlap(tensor, s.origin)), None)

    def _made(self, data: FunctionalData, spec: TensorSpec, version: list[int] | None) -> Tensor:
        made: Tensor = FunctionalTensor._blank()
        self.live.append(weakref.ref(made))
        made._data = data
        made._spec = spec.replace(requires_grad=False, keys=FUNCTIONALIZE_BIT)
        made._version_cell = version
        made._autograd = made._view_base = None
        return made

    def owns(self, tensor: TensorImpl) -> bool:
        """Return True if a tensor is a handle of this layer."""
        data = tensor._data
        return isinstance(data, FunctionalData) and data.storage.layer is self

    def handle_of(self, tensor: Tensor) -> Tensor:
        """Return the handle of any tensor of the program: the tensor itself, or a handle of an external tensor."""
        if self.owns(tensor):
            return tensor
        if isinstance(tensor._data, FunctionalData) and tensor._data.storage.layer not in layers.active:
            raise RuntimeError(
                "functionalize: a tensor of another thread's functionalized call reached this one"
            )
        known = self._handles.get(id(tensor))
        if known is None or known[0] is not tensor:
            known = self._handles[id(tensor)] = (tensor, self._handle_of(tensor))
        return known[1]

    def value_of(self, tensor: Tensor) -> Any:
        """Return the current value of a handle, or of an external tensor. The caller is below the layer."""
        if not self.owns(tensor):
            storage = self._storage_of(tensor)
            if storage is None or not storage.is_written:
                return tensor
            tensor = self.handle_of(tensor)
        return tensor._data.value(self.call, self.copies)

    def fresh(self, value: Any, spec: TensorSpec) -> Tensor:
        """Return the handle of a new value with the metadata `spec`."""
        plain = spec.replace(requires_grad=False, keys=0)
        root = fresh_root(plain)
        storage = FunctionalStorage(self, value, plain, root)
        return self._made(FunctionalData(root.address, root.nbytes, root, storage, ()), plain, None)

    def leave(self, result: Any) -> Any:
        """Copy writes back to the inputs, and make the handles plain tensors. Returns the result."""
        originals = {id(handle): tensor for tensor, handle, _ in self._inputs}
        with self.below():
            for storage in self._written():
                origin = storage.origin
                versions = origin._version_cell
                before = None if versions is None else versions[0]
                self.call("aten::copy_", origin, storage.value, False)
                if before is not None:
                    # The writes were counted when they were made; saved tensors check the count.
                    origin._version_cell[0] = before
                storage.value = origin
                storage.generation += 1
            outputs = tree_map(lambda v: v if originals.get(id(v)) is None else originals[id(v)], result)
            self._release()
        for tensor, handle, _ in self._inputs:
            tensor._autograd = handle._autograd
            if handle._spec.requires_grad != tensor._spec.requires_grad:
                tensor._spec = tensor._spec.twin
            if handle._spec.keys & FORWARD_BIT:
                set_tangents(tensor, tangents_of(handle))
        self._give_gradients_back()
        self._give_tangents_back()
        return outputs

    def abandon(self) -> None:
        """Restore the inputs after an error, and make live handles plain tensors."""
        with self.below():
            self._release()
        for tensor, _, saved in self._inputs:
            saved.restore(tensor)
        for tensor, grad in self._gradients:
            tensor._autograd.grad = grad
        for meta, tangents in self._tangents:
            meta.tangents = tangents

    def _written(self) -> list[FunctionalStorage]:
        storages: dict[int, FunctionalStorage] = {}
        for _, handle, _ in self._inputs:
            storage = handle._data.storage
            if storage.is_written and storage.is_input:
                storages[id(storage)] = storage
        return list(storages.values())

    def uncounted_writes(self) -> list[Any]:
        """Return the inputs that were written under another version counter, as `Tensor.data` does."""
        return [
            tensor
            for tensor, handle, saved in self._inputs
            if handle._data.storage.is_written
            and saved.version is not None
            and tensor._version_cell[0] == saved.version
        ]

    def restore_versions(self) -> None:
        """Restore the inputs' versions from before the call, for a call that was recorded and wrote nothing."""
        for tensor, _, saved in self._inputs:
            if saved.version is not None:
                tensor._version_cell[0] = saved.version

    def _give_gradients_back(self) -> None:
        """Restore the caller's gradient tensors, which now have the accumulated sums."""
        handles = {id(handle): tensor for tensor, handle, _ in self._inputs}
        for tensor, grad in self._gradients:
            present = tensor._autograd.grad
            if present is not None and handles.get(id(present)) is grad:
                tensor._autograd.grad = grad

    def _give_tangents_back(self) -> None:
        """Restore the caller's tangents, to which writes have been copied."""
        for meta, before in self._tangents:
            meta.tangents = {level: before.get(level, own) for level, own in meta.tangents.items()}

    def contains(self, level: VmapLevel) -> bool:
        """Return True if a `vmap` was entered inside the functionalized call."""
        return level.number > self._depth

    def _release(self) -> None:
        """Make every live handle a plain tensor over its value."""
        handles = [h for h in (reference() for reference in self.live) if h is not None and self.owns(h)]
        if not self.copies:
            # Values written through a view are taken from the whole, whose memory they must share.
            for data in {id(h._data): h._data for h in handles}.values():
                if data.steps and data.storage.is_written:
                    data.generation = -1
        values = [self.value_of(handle) for handle in handles]
        for handle, value in zip(handles, values, strict=True):
            spec = value._spec.detached
            spec = spec.replace(keys=spec.keys & ~FORWARD_BIT | handle._spec.keys & FORWARD_BIT)
            handle.__class__ = type(value)
            if handle.__class__ is not Tensor:
                vars(handle).update(vars(value))
            handle._data = value._data
            handle._spec = spec.differentiable if handle._spec.requires_grad else spec
            if self.copies and handle._view_base is not None:
                handle._view_base = None
            _adopt(handle)

    def run(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Run one operator of the program, on handles and external tensors."""
        schema = op.schema
        if schema.is_mutable:
            return self._write(op, values)
        if any(r.alias_info is not None for r in schema.returns):
            return self._view(op, values)
        with self.below():
            result = self._computed(op, self._values(values))
            if self.copies:
                return self._wrapped(result, self._expected(op, values, result))
            return self._wrapped(result, result)

    def _values(self, values: Sequence[Any]) -> list[Any]:
        return [_mapped(v, self.value_of) for v in values]

    def _wrapped(self, result: Any, like: Any) -> Any:
        """Return handles of results, each with the metadata of the tensor at its position in `like`."""
        if isinstance(result, TensorImpl):
            return self.fresh(result, like._spec.replace(device=result._spec.device))
        if isinstance(result, list | tuple):
            made_of: Any = getattr(type(result), "_make", type(result))
            return made_of([self._wrapped(r, s) for r, s in zip(result, like, strict=True)])
        return result

    def _expected(self, op: OperatorEntry, values: Sequence[Any], result: Any) -> Any:
        """Return the metadata of the operator's results as if views were not copied.

        Values may have other strides than the program's tensors, so that the operator's Meta kernel infers the results.
        An operator with data-dependent sizes has no Meta kernel; its results themselves serve as metadata.
        """
        if not any(
            isinstance(t._data, FunctionalData)
            and t._data.value(self.call, True)._spec.strides != t._spec.strides
            for t in tensors_in(values)
            if self.owns(t)
        ):
            return result
        try:
            return self._on_meta(op, values)[0]
        except NotImplementedError:
            return result

    def _on_meta(self, op: OperatorEntry, values: Sequence[Any]) -> tuple[Any, dict[int, Any]]:
        """Run the operator's Meta kernel on stand-ins of its arguments, and return these too, by the ids of the
        originals.
        """
        op.find_runtime_arguments()
        metas: dict[int, Any] = {}
        roots: dict[int, DataPtr] = {}

        def stand_in(tensor: Tensor) -> Tensor:
            made = metas.get(id(tensor))
            if made is None:
                made = metas[id(tensor)] = _stand_in(tensor, roots)
            return made

        replaced: list[Any] = []
        for position, value in enumerate(values):
            if isinstance(value, Generator):
                replaced.append(None)
            elif position in op.device_positions:
                replaced.append(META)
            else:
                replaced.append(_mapped(value, stand_in))
        with without_modes(), ExcludeDispatchKeyGuard(AUTOGRAD_BITS | FUNCTIONALIZE_BIT):
            return op.call_with_keys(META_KEYS, replaced), metas

    def _view(self, op: OperatorEntry, values: Sequence[Any]) -> Tensor:
        """Run a view: the same storage with one more step."""
        schema = op.schema
        source = self.handle_of(values[_aliased(schema)])
        values = [source if i == _aliased(schema) else v for i, v in enumerate(values)]
        result = self._looked_up(op, source, values)
        name, args = _plain_view(op.name, tuple(values[1:]))
        data: FunctionalData = source._data
        storage = data.storage
        address = data.address + result.offset
        spec = result.spec
        steps = data.steps
        if name not in _ALIASES:
            before = source._spec.replace(requires_grad=False, keys=0)
            start = storage.root.address if storage.origin is None else address_of(storage.origin._data)
            offset = (address - start) // spec.itemsize
            if name == "aten::_strided_from":
                if spec.dtype is not storage.spec.dtype:
                    raise RuntimeError(
                        f"functionalize: as_strided of a view of dtype {spec.dtype} of a tensor of dtype "
                        f"{storage.spec.dtype} cannot be expressed without memory"
                    )
                steps = ()
                args = (spec.sizes, spec.strides, offset)
                before = storage.spec
            steps = (*steps, Step(name, args, before, spec, offset))
        root = storage.root
        made = self._made(
            FunctionalData(address, root.address + root.nbytes - address, root, storage, steps),
            spec,
            source.version_cell() if result.counts_with_it else result.version,
        )
        if result.is_tracked:
            made._view_base = source if source._view_base is None else source._view_base
            made._creation = None if source._view_base is None else creation_of(source)
            mark_unrecorded(made)
        if steps and steps is not data.steps:
            # Computed immediately, as in the program, so that errors are raised where they occur.
            with self.below():
                if data.generation == storage.generation or not data.steps:
                    made_data = made._data
                    made_data.cached = forward(
                        steps[-1], data.value(self.call, self.copies), storage, self.call, self.copies
                    )
                    made_data.generation = storage.generation
        return made

    def _looked_up(self, op: OperatorEntry, source: Tensor, values: Sequence[Any]) -> _View:
        """Return the Meta kernel's result for a view, cached for calls with the same metadata."""
        look = None if source._spec.is_inference else call_look(op, values)
        known = None if look is None else self._views.get(look)
        if known is not None:
            return known
        result, _ = self._on_meta(op, values)
        if not isinstance(result, TensorImpl):
            raise RuntimeError(
                f"functionalize: {op.name} returns several views, and only operators that return one are rewritten"
            )
        spec = result._spec.replace(device=source._spec.device)
        offset = address_of(result._data) - source._data.address
        version = result._version_cell
        if look is None or version is not source._version_cell:
            return _View(spec, offset, result._view_base is not None, False, version)
        view = self._views[look] = _View(spec, offset, result._view_base is not None, True, None)
        return view

    def _write(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Run a mutating operator: its functional form, with new values for its targets."""
        schema = op.schema
        written = [i for i, a in enumerate(schema.arguments) if a.is_write]
        targets: list[list[Any]] = []
        # The functional form's first result is the ``out=`` argument, before other written arguments.
        for i in sorted(written, key=lambda i: not schema.arguments[i].is_out):
            value = values[i]
            if value is not None:
                tensors = [value] if isinstance(value, TensorImpl) else value
                targets.append([self._target(op, tensor) for tensor in tensors])
        if "inplace_view" in op.tags:
            return self._change_memory(op, values)
        functional = functional_form(op)
        if is_derived(functional):
            return self._write_memory(op, functional, values, [t for each in targets for t in each])
        before = {id(target): target._spec for each in targets for target in each}
        # With data-dependent sizes, the results themselves are the metadata.
        metas = {} if "dynamic_output_shape" in functional.tags else self._on_meta(op, values)[1]
        with self.below():
            arguments = self._arguments_of(functional, op, values)
            if functional.origin_of(FUNCTIONALIZE, functional.kernels) is IMPLICIT:
                results = self._values([self._composed(functional, op, values)])[0]
            else:
                results = settled(functional, functional.call(*arguments))
            outs = results if isinstance(results, list | tuple) else (results,)
            if len(targets) == 1 and len(functional.schema.returns) == 1:
                outs = (results,)  # a list instead of a tensor is the one result too
            # The operator's own results come before its written arguments.
            own = len(outs) - len(targets) if schema.returns and schema.returns[0].alias_info is None else 0
            outs, plain = [out for out in outs[own:] if out is not None], outs[:own]
            for each, out in zip(targets, outs, strict=True):
                for target, new in zip(each, (out,) if isinstance(out, TensorImpl) else out, strict=True):
                    spec, old = metas.get(id(target), new)._spec, before[id(target)]
                    if (spec.sizes, spec.strides) != (old.sizes, old.strides):
                        self._resized(op, target, spec)
                    self._assign(target, new)
        if plain:
            wrapped = tuple(self._wrapped(each, each) for each in plain)
            return wrapped[0] if len(wrapped) == 1 else wrapped
        return returned(schema, values, outs)

    def _write_memory(
        self, op: OperatorEntry, functional: OperatorEntry, values: Sequence[Any], targets: Sequence[Any]
    ) -> Any:
        """Run a user's mutating operator: its derived form returns new memory for everything that it writes."""
        storages = list({id(t._data.storage): t._data.storage for t in targets}.values())
        views: list[int] = []
        counter = itertools.count()

        def value(tensor: Any) -> Any:
            number = next(counter)
            if not self.owns(tensor) and self._storage_of(tensor) is None:
                return tensor
            data: FunctionalData = self.handle_of(tensor)._data
            if data.storage not in storages:
                return data.value(self.call, self.copies)
            views.extend((number, storages.index(data.storage), data.address - data.storage.address))
            return data.value(self.call, self.copies) if data.steps else data.storage.lay_out(self.call)

        with self.below():
            new_args = map_tensors(values, value)
            bases = [storage.lay_out(self.call) for storage in storages]
            results = self._computed(functional, [*new_args, bases, tuple(views), ()])
            own, made = (results[:-1], results[-1]) if len(functional.schema.returns) > 1 else ((), results)
            for storage, new in zip(storages, made, strict=True):
                storage.replace(new, self.call, self.copies)
        if own:
            wrapped = tuple(self._wrapped(each, each) for each in own)
            return wrapped[0] if len(wrapped) == 1 else wrapped
        return returned(op.schema, values, ())

    def _target(self, op: OperatorEntry, tensor: Any) -> Any:
        if not self.owns(tensor) or (
            tensor._data.storage.origin is not None and not tensor._data.storage.is_input
        ):
            if self.adopts:
                return self._adopted(tensor)
            raise RuntimeError(
                f"functionalize: {op.name} writes to a tensor that the function closes over ({tensor._spec!r}): "
                "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of "
                "your inputs are wrapped inside of a functionalize() call."
            )
        return tensor

    def _adopted(self, tensor: Any) -> Any:
        """Return the handle of an external tensor that is written; it counts as an argument from now on."""
        handle = self.handle_of(tensor)
        storage: FunctionalStorage = handle._data.storage
        if not storage.is_input:
            storage.is_input = True
            origin = storage.origin
            handle_of_origin = self.handle_of(origin)
            handle_of_origin._autograd, handle_of_origin._view_base = origin._autograd, origin._view_base
            spec = handle_of_origin._spec
            handle_of_origin._spec = spec.replace(requires_grad=origin._spec.requires_grad)
            self._inputs.append((origin, handle_of_origin, _Saved(origin)))
        return handle

    def _assign(self, target: Tensor, new: Tensor) -> None:
        """Make `new`, cast to its dtype and device, the value of a handle."""
        spec = target._spec
        if new._spec.dtype is not spec.dtype or new._spec.device is not spec.device:
            new = self.call("aten::_to_copy", new, dtype=spec.dtype, device=spec.device)
        if new._spec.sizes != spec.sizes:
            new = self.call("aten::expand_copy" if self.copies else "aten::expand", new, spec.sizes)
        target._data.write(new, self.call, self.copies)

    def _arguments_of(self, functional: OperatorEntry, op: OperatorEntry, values: Sequence[Any]) -> list[Any]:
        return self._values(functional_arguments(functional, op, values))

    def _composed(self, functional: OperatorEntry, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Run a functional form that is a composite: this layer sees its parts."""
        with self.active(), ExcludeDispatchKeyGuard(AUTOGRAD_BITS):
            return functional.call(*functional_arguments(functional, op, values))

    def _change_memory(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Run ``resize_`` or ``set_``: only a resize to the same sizes, or of a new, unshared tensor."""
        target = values[0]
        name = op.name.partition("::")[2].partition(".")[0]
        if name in ("resize_", "resize_as_"):
            sizes = tuple(values[1]) if name == "resize_" else values[1]._spec.sizes
            if sizes == target._spec.sizes and values[2] is None:
                return target
            meta = self._on_meta(op, values)[1][id(target)]
            with self.below():
                self._resized(op, target, meta._spec)
            return target
        raise RuntimeError(
            f"functionalize: {op.name} gives a tensor other memory, which a program without memory cannot express"
        )

    def _resized(self, op: OperatorEntry, target: Tensor, spec: TensorSpec) -> None:
        """Give a tensor that the function created other sizes; its elements count as uninitialized."""
        data: FunctionalData = target._data
        storage = data.storage
        other_handles = [h for h in storage.handles if h is not data]
        if storage.is_input or data.steps or other_handles or target._spec.numel:
            noun = (
                "an argument"
                if storage.is_input
                else "a view or its base"
                if data.steps or other_handles
                else "elements"
            )
            raise RuntimeError(
                f"functionalize: {op.name} resizes {noun} from {list(target._spec.sizes)} to {list(spec.sizes)}, which "
                "a program without memory cannot express; give out= a tensor of the result's shape"
            )
        plain = spec.replace(device=target._spec.device, requires_grad=False, keys=0)
        value = self.call(
            "aten::empty_strided", plain.sizes, plain.strides, dtype=plain.dtype, device=plain.device
        )
        made = self.fresh(value, plain)
        target._data = made._data
        target._spec = plain.replace(keys=FUNCTIONALIZE_BIT)


def _steps_within(storage: FunctionalStorage, tensor: Tensor) -> tuple[Step, ...]:
    """Return the steps from a storage's value to an external tensor that shares its memory.

    Raises RuntimeError if the tensor is not a view of the value.
    """
    whole, spec = storage.spec, tensor._spec.replace(requires_grad=False, keys=0)
    distance = address_of(tensor._data) - address_of(storage.origin._data)
    if (spec.sizes, spec.strides, spec.dtype) == (whole.sizes, whole.strides, whole.dtype) and not distance:
        return ()
    offset = distance // whole.itemsize
    inside = distance >= 0 and offset + _reach(spec) <= _reach(whole) and whole.is_dense()
    if spec.dtype is not whole.dtype or not inside:
        raise RuntimeError(
            f"functionalize: two tensors from outside share memory, and {spec!r} is no view of {whole!r}; pass a "
            "tensor that holds both"
        )
    return (Step("aten::_strided_from", (spec.sizes, spec.strides, offset), whole, spec, offset),)


def _reach(spec: TensorSpec) -> int:
    """Return the distance from the first to the last element."""
    return sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)) if spec.numel else 0


class _Saved:
    """Autograd state of an input when the call began."""

    def __init__(self, tensor: Tensor) -> None:
        meta = tensor._autograd
        self.meta = meta
        self.edge = None if meta is None else meta.edge
        self.grad = None if meta is None else meta.grad
        self.version = None if tensor._version_cell is None else tensor._version_cell[0]

    def restore(self, tensor: Tensor) -> None:
        """Put it back."""
        tensor._autograd = self.meta
        if self.meta is not None:
            self.meta.edge = self.edge
            self.meta.grad = self.grad
        if tensor._version_cell is not None:
            tensor._version_cell[0] = self.version or 0


def _adopt(tensor: Tensor) -> None:
    """Make the layer or tracer around this one restore the tensor's own class later."""
    if isinstance(tensor._data, FunctionalData):
        tensor._data.storage.layer.live.append(weakref.ref(tensor))
        return
    from ..graph.make_graph import TracedTensor, innermost_tracer

    tracer = innermost_tracer()
    if tracer is not None and isinstance(tensor, TracedTensor):
        tracer.made.append(weakref.ref(tensor))


_ALIASES = frozenset({"aten::alias", "aten::detach"})
"""Views of the whole tensor, which need no step."""


def _plain_view(name: str, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the public operator for an internal one, and the arguments after the tensor."""
    if name == "aten::_slice_first":
        return "aten::slice.Tensor", (0, *args)
    if name == "aten::_select_first":
        return "aten::select.int", (0, int(args[0]))
    if name == "aten::_basic_index":
        return "aten::_strided_from", ()
    return name, args


def _aliased(schema: FunctionSchema) -> int:
    """Return the position of the argument that a view aliases."""
    return next(i for i, a in enumerate(schema.arguments) if a.alias_info is not None)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, TensorImpl):
        return function(value)
    if isinstance(value, (list, tuple)):
        return tuple([function(v) if isinstance(v, TensorImpl) else v for v in value])
    return value


def _stand_in(tensor: Tensor, roots: dict[int, DataPtr]) -> Tensor:
    """Return a meta tensor at the place of `tensor`; its memory is in `roots`, by the id of the real one.

    Tensors that share memory have stand-ins that share it, so that the Meta kernel refuses writes that overlap.
    """
    spec = tensor._spec
    meta = blank_tensor()
    meta._spec = spec.replace(device=META, keys=0, requires_grad=False)
    data = tensor._data
    root = root_of(data)
    base = roots.get(id(root))
    if base is None:
        base = roots[id(root)] = DataPtr(address_of(root), root.nbytes, META)
    address = address_of(data)
    meta._data = DataPtr(address, base.address + base.nbytes - address, META, base)
    meta._version_cell = None if spec.is_inference else tensor.version_cell()
    meta._autograd = meta._view_base = None
    return meta


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Return True if the memory span between a tensor's first and last element overlaps that of another tensor."""

    def extent(tensor: Tensor) -> tuple[int, int]:
        first = address_of(tensor._data)
        return first, first + (_reach(tensor._spec) + 1) * tensor._spec.itemsize

    (first, last), (low, high) = extent(a), extent(b)
    return a is b or bool(a._spec.numel and b._spec.numel and first < high and low < last)
