"""Overriding of public calls by arguments of any type, and by modes (`torch.overrides`).

A class with a class method ``__tensor_function__(cls, func, types, args=(), kwargs=None)`` takes over every public
call that gets one of its instances, directly or in a list. The class need not be a tensor. `func` is the public
callable. A `TensorFunctionMode` sees the calls of a block.

Example:
    >>> import triten as tt
    >>> class Diagonal:
    ...     def __init__(self, n, value):
    ...         self.n, self.value = n, value
    ...     @classmethod
    ...     def __tensor_function__(cls, func, types, args=(), kwargs=None):
    ...         if func in (tt.mean, tt.Tensor.mean):
    ...             return args[0].value / args[0].n
    ...         return NotImplemented
    >>> tt.mean(Diagonal(5, 2.0))
    0.4
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from .dispatch.core import tensor_function as _protocol
from .dispatch.core.tensor_function import (
    handle_tensor_function,
    has_tensor_function,
    has_tensor_function_unary,
    has_tensor_function_variadic,
)
from .dispatch.layers.overrides import overridable as _overridable
from .dispatch.layers.overrides.function_mode import BaseTensorFunctionMode, TensorFunctionMode
from .dispatch.layers.overrides.subclass_attributes import default_nowrap_functions
from .dispatch.layers.python_key import PYTHON_BIT, active_modes
from .dispatch.tensor import Tensor
from .runtime import public_name
from .runtime.dispatch_key import ADINPLACE_BIT, AUTOGRAD_BITS
from .runtime.local_dispatch_key_set import local

__all__ = [
    "BaseTensorFunctionMode",
    "TensorFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_tensor_function",
    "has_tensor_function",
    "has_tensor_function_unary",
    "has_tensor_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_tensor_function",
]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

NAMESPACES = {
    "triten": "_public",
    "triten.autograd": "autograd",
    "triten.nn.functional": "nn.functional",
}
"""Public names of the namespaces whose functions can be overridden, and the modules that hold them."""


def _namespaces() -> list[tuple[str, ModuleType]]:
    return [(name, importlib.import_module(f".{path}", __package__)) for name, path in NAMESPACES.items()]


_overridable.namespaces.append(_namespaces)


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public callables that no argument overrides; modes see the factories among them.

    Example:
        >>> import triten as tt
        >>> tt.ones in tt.overrides.get_ignored_functions()
        True
        >>> tt.add in tt.overrides.get_ignored_functions()
        False
    """
    left_out = _overridable.UNSEEN | _overridable.MODES_ONLY
    functions = {f for _, name, f in _overridable.public_functions() if name in left_out}
    methods = {getattr(Tensor, name) for name in _overridable.IGNORED_METHODS if hasattr(Tensor, name)}
    return functions | methods


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the callables that arguments and modes can override, by the namespace that holds them.

    A namespace is a module or `Tensor`; a property is a key of its own for its accessors.

    Example:
        >>> import triten as tt
        >>> found = tt.overrides.get_overridable_functions()
        >>> tt.add in found[tt], tt.Tensor.add in found[tt.Tensor]
        (True, True)
        >>> tt.Tensor.shape.__get__ in found[tt.Tensor.shape]
        True
    """
    functions: dict[Any, list[Callable[..., Any]]] = {}
    left_out = _overridable.UNSEEN | _overridable.MODES_ONLY
    for qualified, name, function in _overridable.public_functions():
        if name not in left_out:
            namespace = importlib.import_module(qualified.replace("triten", __package__ or "triten", 1))
            functions.setdefault(namespace, []).append(function)
    for _, attribute in _overridable.overridable_attributes():
        if isinstance(attribute, property):
            functions[attribute] = [func for _, _, func in _overridable.accessors(attribute)]
        elif attribute not in functions.setdefault(Tensor, []):
            functions[Tensor].append(attribute)
    return functions


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a function that returns -1 for each overridable callable, with the same signature if known.

    Use it to test that a class with ``__tensor_function__`` handles every callable.

    Example:
        >>> import inspect, triten as tt
        >>> dummy = tt.overrides.get_testing_overrides()[tt.add]
        >>> dummy(1, 2), list(inspect.signature(dummy).parameters)[:2]
        (-1, ['input', 'other'])
    """
    return {
        function: _dummy(function) for several in get_overridable_functions().values() for function in several
    }


def _dummy(function: Callable[..., Any]) -> Callable[..., int]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda *args, **kwargs: -1

    def dummy(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    dummy.__signature__ = signature  # type: ignore[attr-defined]
    return dummy


@functools.cache
def _tensor_methods() -> set[Callable[..., Any]]:
    return set(get_overridable_functions()[Tensor])


def resolve_name(f: object) -> str | None:
    """Return the public name of a callable that a handler got; evaluating the name gives the callable.

    Returns None for a callable that is not public here.

    Example:
        >>> import triten as tt
        >>> tt.overrides.resolve_name(tt.nn.functional.softmax)
        'triten.nn.functional.softmax'
        >>> tt.overrides.resolve_name(tt.Tensor.shape.__get__)
        'triten.Tensor.shape.__get__'
    """
    from .dispatch.core.op_overload import OpOverload, OpOverloadGroup

    if isinstance(f, OpOverload | OpOverloadGroup):
        return str(f)
    try:
        name = _overridable.index().get(f)
    except TypeError:
        return None
    return None if name is None else f"{public_name.shown}.{name.partition('.')[2]}"


_protocol.name_resolvers.append(resolve_name)


def is_tensor_method_or_property(func: object) -> bool:
    """Return whether a callable that a handler got belongs to `Tensor`, so that its first argument is the tensor.

    Example:
        >>> import triten as tt
        >>> tt.overrides.is_tensor_method_or_property(tt.Tensor.add)
        True
        >>> tt.overrides.is_tensor_method_or_property(tt.add)
        False
    """
    return func in _tensor_methods() or getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")


def is_tensor_like(inp: object) -> bool:
    """Return whether a value is a tensor, or of a class that handles public calls.

    Example:
        >>> import triten as tt
        >>> tt.overrides.is_tensor_like(tt.ones(1)), tt.overrides.is_tensor_like(6)
        (True, False)
    """
    return type(inp) is Tensor or _protocol.handler_of(type(inp)) is not None


def get_default_nowrap_functions() -> set[Any]:
    """Return the callables whose results the default ``Tensor.__tensor_function__`` does not convert to the subclass.

    Example:
        >>> import triten as tt
        >>> tt.Tensor.grad.__get__ in tt.overrides.get_default_nowrap_functions()
        True
    """
    return default_nowrap_functions()


def wrap_tensor_function(
    dispatcher: Callable[Parameters, Iterable[Any]],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a function of your own so that arguments and modes can override it.

    Args:
        dispatcher: has the function's signature and gives the arguments that may handle the call.

    Example:
        >>> import triten as tt
        >>> @tt.overrides.wrap_tensor_function(lambda a: (a,))
        ... def double(a):
        ...     return a + a
        >>> double(3)
        6
    """

    def wrap(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_tensor_function(relevant):
                return handle_tensor_function(wrapped, relevant, *args, **kwargs)  # type: ignore[no-any-return]
            return function(*args, **kwargs)

        return wrapped

    return wrap


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Let autograd record operators in a block of a handler below autograd (``__tensor_dispatch__``).

    Gradients can be computed inside the block.

    Source: torch.overrides.enable_reentrant_dispatch.

    Example:
        >>> import triten as tt
        >>> class Derive(tt.TensorDispatchMode):
        ...     def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        ...         with tt.overrides.enable_reentrant_dispatch(), tt.enable_grad():
        ...             x = args[0].detach().requires_grad_()
        ...             print(tt.autograd.grad(func(x), x)[0])
        ...         return func(*args, **(kwargs or {}))
        >>> x = tt.tensor(0.0, requires_grad=True)
        >>> with Derive():
        ...     y = x.sin()
        tensor(1.)
    """
    included, excluded = local.included, local.excluded
    local.excluded &= ~(AUTOGRAD_BITS | ADINPLACE_BIT)
    if active_modes():
        local.included |= PYTHON_BIT
    try:
        yield
    finally:
        local.included, local.excluded = included, excluded


def redispatch_function(
    func: Callable[..., Result], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Result:
    """Call a function without handlers; the functions that it calls have handlers again.

    An operator returns a plain tensor, as it calls no other public function.

    Args:
        func: The function that a handler got.
        types: The classes that the handler got.
        args: Positional arguments.
        kwargs: Keyword arguments.

    Source: torch.overrides.redispatch_function.

    Example:
        >>> import triten as tt
        >>> class Logged(tt.Tensor):
        ...     @classmethod
        ...     def __tensor_function__(cls, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return tt.overrides.redispatch_function(func, types, args, kwargs)
        >>> x = tt.ones(2).as_subclass(Logged)
        >>> type(tt.nn.functional.softsign(x)).__name__
        softsign
        abs
        div
        'Tensor'
    """
    named = kwargs or {}
    body = _protocol.body_of(func)
    if body is not None:
        return body(*args, **named)  # type: ignore[no-any-return]
    if inspect.isfunction(func) and public_name.path_below(func.__module__) is None:
        return _protocol.call_unchecked(func, args, named)  # type: ignore[no-any-return]
    with _protocol.DisableTensorFunction():
        return func(*args, **named)
