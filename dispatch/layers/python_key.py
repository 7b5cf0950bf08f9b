"""Operators handled in Python: dispatch modes, and tensor subclasses (torch/utils/_python_dispatch.py).

Both are one fallback at the Python key, which is below autograd and above the kernels. A mode puts the key into its
thread's set, a subclass into its tensors' own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from ...runtime.allocator import storage_size
from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.dispatch_key import PYTHON_BIT as PYTHON_BIT
from ...runtime.dispatch_key_set import DispatchKeySet
from ...runtime.grad_mode import inference_enabled, is_inference_mode_enabled
from ...runtime.layout import layout as Layout
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import IncludeDispatchKeyGuard, effective
from ...runtime.memory_format import contiguous_strides, strides_for
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype
from ...runtime.storage import root_of, storage_of, view_at
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import IN_PLACE_OF_DENSE, OVERRIDE_FLAG, TensorSpec
from ..autograd.gradients import keep_backward_below
from ..core.bound_arguments import tensors_in
from ..core.dispatched_overload import dispatched
from ..core.dispatcher import Dispatcher
from ..core.mode_stack import below_innermost as below_innermost
from ..core.mode_stack import sees_whole as sees_whole
from ..core.mode_stack import stack as _stack
from ..core.mode_stack import without_modes as without_modes
from ..core.native_calls import from_python
from ..core.op_overload import OpOverload
from ..core.operator_entry import IMPLICIT, OperatorEntry, interceptions, observers
from ..core.tensor_function import handles
from ..core.whole_operators import WHOLE
from ..schema import is_tensor_like
from ..tensor import Tensor

HANDLER = "__tensor_dispatch__"

Subclass = TypeVar("Subclass", bound=TensorImpl)


class TensorDispatchMode:
    """Context manager in which every operator below autograd goes through `__tensor_dispatch__` (`TorchDispatchMode`).

    Modes nest: the innermost one sees a call first, and its own calls go to the next outer one. A mode is not active
    while it handles a call, so that it may call the operator itself. A mode sees the overloads that PyTorch dispatches.
    It sees the parts of the operators that PyTorch decomposes too.

    Example:
        >>> import triten as tt
        >>> class Log(tt.TensorDispatchMode):
        ...     def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func.name(), [tuple(a.shape) for a in args if isinstance(a, tt.Tensor)])
        ...         return func(*args, **(kwargs or {}))
        >>> x, w = tt.ones(1, 2), tt.ones(3, 2)
        >>> with Log():
        ...     y = tt.nn.functional.linear(x, w)
        aten::t [(3, 2)]
        aten::mm [(1, 2), (2, 3)]
    """

    _guards: list[IncludeDispatchKeyGuard]
    handle_bound: Callable[[OperatorEntry, Sequence[Any]], Any] | None = None
    """Faster `__tensor_dispatch__`: it receives an operator's entry and all its arguments, in the schema's order."""

    sees_parts = False
    """True if the handler sees this package's dispatched operators: parts of composites, numbers for tensors."""

    def __tensor_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Handle one operator: `func` is the overload; `types` the classes with handlers of their own among `args`."""
        raise NotImplementedError(f"{type(self).__name__} defines no __tensor_dispatch__")

    def __enter__(self) -> Any:
        if isinstance(type(self).__dict__.get("__tensor_dispatch__"), classmethod | staticmethod):
            raise RuntimeError(
                "Defining your mode's `__tensor_dispatch__` as a classmethod is not supported, please make it a plain "
                f"method: {type(self).__name__}"
            )
        if not hasattr(self, "_guards"):
            self._guards = []
        guard = IncludeDispatchKeyGuard(PYTHON_BIT)
        guard.__enter__()
        self._guards.append(guard)
        _stack.modes.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not _stack.modes or _stack.modes[-1] is not self:
            raise RuntimeError(f"{type(self).__name__} is left before a mode that was entered after it")
        _stack.modes.pop()
        self._guards.pop().__exit__(kind, error, trace)


def active_modes() -> tuple[TensorDispatchMode, ...]:
    """Return the modes that would see a call of this thread, outermost first, except modes that are handling a call."""
    return tuple(_stack.modes)


def split_arguments(op: OperatorEntry, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return bound arguments as a caller would write them: trailing and keyword-only defaults are omitted."""
    positional: list[Any] = []
    num_kept = 0
    named: dict[str, Any] = {}
    for (argument, has_default, default), value in zip(op.schema.usual_values, values, strict=True):
        usual = has_default and _is_default(value, default)
        if argument.kwarg_only:
            if not usual:
                named[argument.name] = value
            continue
        positional.append(value)
        if not usual:
            num_kept = len(positional)
    return tuple(positional[:num_kept]), named


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        value.__class__ is default.__class__ and not isinstance(value, TensorImpl) and value == default
    )


def bound_handler(
    op: OperatorEntry, values: Sequence[Any]
) -> Callable[[OperatorEntry, Sequence[Any]], Any] | None:
    """Return the innermost mode's `handle_bound` if a call with all arguments would reach that mode, else None.

    A mode that records many calls then avoids the dispatcher's plans. All other calls go through the dispatcher.
    """
    if not _stack.modes or dispatch_rules or observers:
        return None
    if op.schema.is_mutable and any(t._spec.is_inference for t in tensors_in(values)):
        return None  # the dispatcher refuses writes to such
    handle = _stack.modes[-1].handle_bound
    if op.name in WHOLE and IMPLICIT in op.kernels:
        return None
    if handle is None or (inference_enabled and is_inference_mode_enabled()):
        return None
    if interceptions and any(each.concerns(op) for each in interceptions):
        return None
    kernel = op.lookup(effective(op.key_set_of(values)))
    return handle if kernel.function is python_fallback else None


def handling_types(values: Sequence[Any]) -> list[type]:
    """Return the tensor subclasses with a handler among arguments: in their order, subclasses before their bases."""
    classes: list[type] = []
    for tensor in tensors_in(values):
        cls = type(tensor)
        if cls not in classes and hasattr(cls, HANDLER):
            position = next((i for i, other in enumerate(classes) if issubclass(cls, other)), len(classes))
            classes.insert(position, cls)
    return classes


dispatch_rules: dict[tuple[str, type], Callable[..., Any]] = {}
"""Functions called for an operator instead of a class's or a mode's handler (`tt.library.register_tensor_dispatch`)."""


bound_handlers: dict[type, Callable[[OperatorEntry, list[Any]], Any]] = {}
"""Functions called instead of the handler of one of this package's classes, with the operator and all its arguments."""


def _ask(asker: Any, op: OperatorEntry, func: OpOverload, types: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a class's or a mode's handler for a call."""
    if dispatch_rules:
        rule = dispatch_rules.get((op.name, asker if isinstance(asker, type) else type(asker)))
        if rule is not None:
            return rule(asker, func, types, args, kwargs)
    return getattr(asker, HANDLER)(func, types, args, kwargs)


def python_fallback(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Serve every operator at the Python key: call the innermost mode, else the subclasses in their order.

    Raises TypeError if all of them return NotImplemented, or for results that do not fit the schema.
    """
    values = list(stack)
    stack.clear()
    types = handling_types(values)
    askers: list[Any] = [_stack.modes[-1]] if _stack.modes else list(types)
    sees_parts = any(getattr(asker, "sees_parts", False) for asker in askers)
    if sees_parts and op.name in WHOLE and IMPLICIT in op.kernels:
        composite = op.kernels[IMPLICIT][-1].function
        assert composite is not None
        result = composite(*values)
        stack.extend(_owned(op, (result,) if len(op.schema.returns) == 1 else result or ()))
        return
    if not _stack.modes and len(types) == 1 and not dispatch_rules:
        handler = bound_handlers.get(types[0])
        if handler is not None:
            with from_python():
                result = handler(op, values)
            stack.extend((result,) if len(op.schema.returns) == 1 else result or ())
            return
    if not sees_parts:
        op, values = dispatched(op, values)  # type: ignore[assignment]
    func = OpOverload(op)
    args, kwargs = split_arguments(op, values)
    result = NotImplemented
    with from_python():
        if _stack.modes:
            with below_innermost():
                result = _ask(askers[0], op, func, tuple(types), args, kwargs)
        # A mode may delegate the operator to the subclasses, whose own calls the mode sees.
        for cls in types:
            if result is not NotImplemented:
                break
            result = _ask(cls, op, func, tuple(types), args, kwargs)
    if result is NotImplemented:
        names = ", ".join(sorted(a.__name__ if isinstance(a, type) else type(a).__name__ for a in askers))
        raise TypeError(
            f"no implementation found for '{op.name}': {HANDLER} of {names} returned NotImplemented"
        )
    written = [] if sees_parts else _written(op, values)
    _push_checked(op, stack, result if not written else written[0] if len(written) == 1 else written)


def _written(op: OperatorEntry, values: Sequence[Any]) -> list[Any]:
    """Return the arguments that an in-place or ``out=`` call returns, whatever its handler does; else none."""
    returns = op.schema.returns
    if not returns or not all(r.alias_info is not None and r.alias_info.is_write for r in returns):
        return []
    return [v for a, v in zip(op.schema.arguments, values, strict=True) if a.is_write][: len(returns)]


def _push_checked(op: OperatorEntry, stack: list[Any], result: Any) -> None:
    returns = op.schema.returns
    results = () if not returns else (result,) if len(returns) == 1 else result
    if not isinstance(results, tuple | list) or len(results) != len(returns):
        raise TypeError(
            f"{op.name}: {HANDLER} must return {len(returns)} values, got {type(result).__name__}"
        )
    for expected, value in zip(returns, results, strict=True):
        if value is None:
            continue  # such as a gradient that was not requested, in `native_layer_norm_backward`
        if is_tensor_like(expected.type) and not isinstance(value, TensorImpl | tuple | list):
            raise TypeError(
                f"{op.name}: {HANDLER} must return {expected.type} as the schema has it, got {type(value).__name__}"
            )
    stack.extend(_owned(op, results))


def _owned(op: OperatorEntry, results: Sequence[Any]) -> Sequence[Any]:
    """Return the results of a composite that autograd records whole: none is a view, as its last part may be."""
    if op.name not in WHOLE or any(each.alias_info is not None for each in op.schema.returns):
        return results
    return [
        type(each).from_data(each._data, each._spec)
        if type(each) is Tensor and each._view_base is not None
        else each
        for each in results
    ]


def keys_of(cls: type) -> int:
    """Return the keys that a class adds to its tensors' specs: the Python key, and the one for overridden calls."""
    keys = PYTHON_BIT if hasattr(cls, HANDLER) else 0
    if handles(cls):
        keep_backward_below()
        keys |= OVERRIDE_FLAG
    return keys


def as_subclass(tensor: TensorImpl, cls: type[Subclass]) -> Subclass:
    """Return a tensor of another class over the same bytes, whose gradient goes to `tensor`.

    Raises TypeError for other classes.
    """
    if not tensor._spec.requires_grad:
        return detached_subclass(tensor, cls)
    _check_class(cls)
    alias = Dispatcher.singleton().find_schema_or_throw("aten::alias").call(tensor)
    made = cls._blank()
    made._data = alias._data
    made._spec = alias._spec.replace(keys=keys_of(cls))
    made._version_cell, made._autograd, made._view_base = (
        alias._version_cell,
        alias._autograd,
        alias._view_base,
    )
    return made


def _check_class(cls: Any) -> None:
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass(): expected a subclass of Tensor, got {cls!r}")


def detached_subclass(tensor: TensorImpl, cls: type[Subclass]) -> Subclass:
    """Return a tensor of another class over the same bytes, without a graph. Raises TypeError for other classes."""
    _check_class(cls)
    made = cls._blank()
    made._data = tensor._data
    made._spec = tensor._spec.detached.replace(keys=keys_of(cls) | tensor._spec.keys & IN_PLACE_OF_DENSE)
    made._version_cell = None if tensor._spec.is_inference else tensor.version_cell()
    made._autograd = made._view_base = None
    return made


def wrapper_subclass(
    cls: type[Subclass],
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dtype: ScalarType | None = None,
    device: Device | str | None = None,
    storage_offset: int = 0,
    memory_format: MemoryFormat | None = None,
    layout: Layout = strided,
) -> Subclass:
    """Return a tensor without bytes: metadata, and a class whose handler serves its operators.

    Raises TypeError for a class without a handler, whose operators would read missing bytes.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor) or not hasattr(cls, HANDLER):
        raise TypeError(f"_make_wrapper_subclass(): {cls!r} must be a Tensor subclass with {HANDLER}")
    where = CPU if device is None else Device(device)
    shape = tuple(sizes)
    if strides is None:
        strides = contiguous_strides(shape) if memory_format is None else strides_for(memory_format, shape)
    spec = TensorSpec.of(
        shape,
        tuple(strides),
        get_default_dtype() if dtype is None else dtype,
        where,
        layout=layout,
        keys=keys_of(cls),
    )
    made = cls._blank()
    offset = storage_offset * spec.itemsize
    nbytes = offset + storage_size(spec.sizes, spec.strides) * spec.itemsize
    if where is CPU:
        # A storage has room for an element of the largest dtype, as which it may be viewed.
        byte_strides = tuple([stride * spec.itemsize for stride in spec.strides])
        made._data = np.ndarray(
            spec.sizes, spec.np_dtype, _zeros_without_memory(max(nbytes, 16)), offset, byte_strides
        )
    else:
        made._data = DataPtr(0, nbytes, where).offset_by(offset)
    made._spec = spec
    made._version_cell = made._autograd = made._view_base = None
    return made


PAGE = 4096
"""Number of bytes up to which memory is not worth saving."""


def _zeros_without_memory(nbytes: int) -> Any:
    """Return read-only zeros. Many of them are pages that the operating system maps when they are read."""
    if nbytes <= PAGE or sys.platform == "win32":
        zeros = np.zeros(nbytes, np.uint8)
        zeros.flags.writeable = False
        return zeros
    import mmap  # few programs need it

    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    return np.frombuffer(pages, np.uint8)


def share_storage(tensor: TensorImpl, source: TensorImpl) -> None:
    """Make a tensor share the storage of another one, with its own sizes, strides and storage offset.

    Raises RuntimeError for a tensor whose elements would be outside the storage.
    """
    data: Any = source._data
    if root_of(tensor._data) is not root_of(data):
        offset = tensor.storage_offset() * tensor._spec.itemsize
        tensor._data = view_at(storage_of(data, source._spec.device), offset, tensor._spec)
