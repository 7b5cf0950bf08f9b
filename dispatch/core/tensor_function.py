"""Override protocol above the dispatcher: handlers of public calls (NEP 18; torch/overrides.py).

The innermost function mode of the thread handles a call first, then the arguments whose class defines
``__tensor_function__``. The fast call path has no check. An overridden call has no plan, so the miss path
(`OverloadPacket`) comes here. A mode installs itself into the functions (`layers/overrides/interception.py`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, TracebackType
from typing import Any, Final, TypeVar

from ...runtime.size import Size
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import OVERRIDE_FLAG, TensorSpec
from ...runtime.thread_state import inherited
from ...runtime.traceback_filter import hide_inner_frames
from ..schema.numpy_names import OWN_NAMES

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

HANDLER: Final = "__tensor_function__"

other_handlers: list[str] = []
"""Other names of `HANDLER` in classes that are not tensors; `triten.as_torch` adds PyTorch's."""

ENABLED, SUBCLASSES_DISABLED, ALL_DISABLED = 0, 1, 2
"""How much of the protocol a thread has disabled."""


class _State(threading.local):
    modes: tuple[Any, ...] = ()
    disabled: int = ENABLED
    skips_check: bool = False


state = inherited(_State())
"""This thread's function modes, outermost first, and what is disabled."""

plain_classes: set[type] = {int, float, complex, bool, str, type(None), Size}
"""Common argument classes without a handler. `Tensor` adds itself; `Size` holds only integers."""

name_resolvers: list[Callable[[Any], str | None]] = []
"""Functions that return the public name of a function; `triten.overrides` adds itself."""


def disabled_tensor_function(
    func: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> object:
    """Opt a class out as its ``__tensor_function__`` (`torch._C._disabled_torch_function_impl`).

    A call through ``super().__tensor_function__`` calls `func` without handlers of arguments.

    Example:
        >>> import triten as tt
        >>> class Plain(tt.Tensor):
        ...     __tensor_function__ = tt._C._disabled_tensor_function_impl
        >>> type(tt.ones(1).as_subclass(Plain) + 1).__name__
        'Tensor'
    """
    with DisableTensorFunctionSubclass():
        return func(*args, **(kwargs or {}))


class _Disabling:
    """Context manager that disables part of the protocol in this thread."""

    __slots__ = ("_before",)

    level: int

    def __init__(self) -> None:
        self._before: list[int] = []

    def __enter__(self) -> None:
        before = state.disabled
        self._before.append(before)
        if before < self.level:
            state.disabled = self.level

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.disabled = self._before.pop()


class DisableTensorFunctionSubclass(_Disabling):
    """Context manager in which argument handlers are disabled but function modes are not
    (`torch._C.DisableTorchFunctionSubclass`).

    Example:
        >>> import triten as tt
        >>> class Sub(tt.Tensor):
        ...     pass
        >>> x = tt.ones(1).as_subclass(Sub)
        >>> with tt._C.DisableTensorFunctionSubclass():
        ...     y = x + 1
        >>> type(y).__name__, type(x + 1).__name__
        ('Tensor', 'Sub')
    """

    __slots__ = ()
    level = SUBCLASSES_DISABLED


class DisableTensorFunction(_Disabling):
    """Context manager that disables both argument handlers and function modes (`torch._C.DisableTorchFunction`)."""

    __slots__ = ()
    level = ALL_DISABLED


def handles(cls: type) -> bool:
    """Return whether instances of a class take part: it has a handler, is not `Tensor` itself and not disabled."""
    if cls in plain_classes:
        return False
    handler = handler_of(cls)
    return handler is not None and handler is not disabled_tensor_function


def handler_of(cls: type) -> Any:
    """Return the handler of a class; None if it has none."""
    handler = getattr(cls, HANDLER, None)
    if handler is None:
        for name in other_handlers:
            handler = getattr(cls, name, None)
    return handler


def bound_handler_of(value: object) -> Any:
    """Return the handler of an object whose class has one, bound to the object if it is a plain method.

    The class decides on the name: an object may pass on attributes that its class lacks to a tensor.
    """
    cls = type(value)
    return getattr(value, next(n for n in (HANDLER, *other_handlers) if getattr(cls, n, None) is not None))


def overloaded_in(values: Iterable[Any]) -> list[Any]:
    """Return the arguments that take part, including those in lists and tuples: one of each class, in handler order.

    The order is left to right, with subclasses before their superclasses.
    """
    overloaded_args: list[Any] = []
    for value in values:
        cls = value.__class__
        if cls is list or cls is tuple:
            for element in value:
                if element.__class__ not in plain_classes:
                    _insert(overloaded_args, element)
        elif cls not in plain_classes:
            if isinstance(value, list | tuple):
                for element in value:
                    _insert(overloaded_args, element)
            _insert(overloaded_args, value)
    return overloaded_args


def _insert(overloaded_args: list[Any], value: object) -> None:
    cls = type(value)
    if not handles(cls):
        return
    if not overloaded_args:
        overloaded_args.append(value)
        return
    if any(type(other) is cls for other in overloaded_args):
        return
    position = next(
        (i for i, other in enumerate(overloaded_args) if issubclass(cls, type(other))), len(overloaded_args)
    )
    overloaded_args.insert(position, value)


def overloaded(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return `overloaded_in` of a call's arguments; an empty list if arguments are disabled in this thread."""
    if state.disabled:
        return []
    overloaded_args = overloaded_in(args)
    if kwargs:
        for value in overloaded_in(kwargs.values()):
            _insert(overloaded_args, value)
    return overloaded_args


def is_marked(elements: Iterable[Any]) -> bool:
    """Return whether a call's key has the spec of a tensor that takes part, or a spec that is not interned."""
    for element in elements:
        if isinstance(element, TensorSpec):
            if element.keys & OVERRIDE_FLAG or not element.is_interned:
                return True
        elif element.__class__ is tuple and is_marked(element):
            return True
    return False


def unmarked(result: Result) -> Result:
    """Clear the override flag of plain result tensors that inherited their spec from an argument."""
    if isinstance(result, TensorImpl):
        spec = result._spec
        if spec.keys & OVERRIDE_FLAG and not handles(type(result)):
            result._spec = spec.replace(keys=spec.keys & ~OVERRIDE_FLAG)
    elif isinstance(result, list | tuple):
        for each in result:
            unmarked(each)
    return result


def handle(
    func: Callable[..., Any],
    askers: Sequence[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    python: bool = False,
) -> Any:
    """Run the innermost mode's handler for a call, else those of `askers` in order.

    A mode is inactive while it handles a call. `python` selects the error message for functions that check by
    themselves.

    Raises:
        TypeError: if every handler returns NotImplemented.
    """
    types = tuple(map(type, askers))
    active = state.modes if state.disabled < ALL_DISABLED else ()
    if active:
        mode = active[-1]
        state.modes = active[:-1]
        try:
            result = mode.__tensor_function__(func, types, args, kwargs)
        finally:
            state.modes = active
        if result is not NotImplemented:
            return result
    for argument in askers:
        handler = bound_handler_of(argument)
        if getattr(handler, "__self__", None) is argument:
            warnings.warn(
                f"Defining your `{HANDLER}` as a plain method is deprecated and will be an error in future, please "
                "define it as a classmethod.",
                DeprecationWarning,
                stacklevel=3,
            )
        result = handler(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_refusal(func, askers, active[-1] if active else None, python))


def handle_operator(
    func: Callable[..., Any], askers: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run `handle` for Python's binary operators: a TypeError from any handler becomes NotImplemented."""
    try:
        return handle(func, askers, args, kwargs)
    except TypeError:
        return NotImplemented


def _refusal(func: Callable[..., Any], askers: Sequence[Any], mode: object, python: bool) -> str:
    name = next((name for name in (known(func) for known in name_resolvers) if name), None)
    if name is None:
        module = getattr(func, "__module__", None)
        own = getattr(func, "__name__", repr(func))
        name = f"{module}.{own}" if module else own
    if python:
        text = f"no implementation found for '{name}' on types that implement {HANDLER}: {[type(a) for a in askers]}"
        return text if mode is None else f"{text} nor in mode {mode}"
    lines = [] if mode is None else [f"  - mode object {mode!r}"]
    lines += [f"  - tensor subclass {type(a)!r}" for a in askers]
    return (
        f"Multiple dispatch failed for '{name}'; all {HANDLER} handlers returned NotImplemented:\n\n"
        + "\n".join(lines)
    )


def has_tensor_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether one of the arguments or a function mode overrides the call.

    Source: torch.overrides.has_torch_function.

    Example:
        >>> import triten as tt
        >>> tt.overrides.has_tensor_function((tt.ones(1), 2))
        False
    """
    if state.disabled == ALL_DISABLED:
        return False
    if state.skips_check:
        state.skips_check = False
        return False
    return bool(state.modes) or (not state.disabled and bool(overloaded_in(relevant_args)))


def has_tensor_function_unary(value: object) -> bool:
    """Return `has_tensor_function` of one argument."""
    return has_tensor_function((value,))


def has_tensor_function_variadic(*values: object) -> bool:
    """Return `has_tensor_function` of the given arguments."""
    return has_tensor_function(values)


def call_unchecked(func: Callable[..., Result], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Result:
    """Call a function whose first `has_tensor_function` is False, so that it runs its own body."""
    state.skips_check = True
    try:
        return func(*args, **kwargs)
    finally:
        state.skips_check = False


def handle_tensor_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Call the handlers of a user-defined function that checked `has_tensor_function` (`torch.overrides`).

    Args:
        public_api: The function as its users know it.
        relevant_args: The arguments that may handle the call.

    Raises:
        TypeError: where every handler answers NotImplemented.

    Example:
        >>> import triten as tt
        >>> from triten.overrides import handle_tensor_function, has_tensor_function_unary
        >>> def double(x):
        ...     if has_tensor_function_unary(x):
        ...         return handle_tensor_function(double, (x,), x)
        ...     return x + x
        >>> class Text:
        ...     @classmethod
        ...     def __tensor_function__(cls, func, types, args=(), kwargs=None):
        ...         return func.__name__
        >>> double(Text())
        'double'
    """
    askers = [] if state.disabled else overloaded_in(relevant_args)
    return handle(public_api, askers, args, kwargs, python=True)


def overridable(function: Function) -> Function:
    """Make a public function, built from operators, overridable by its arguments' classes (`torch.overrides`).

    Example:
        >>> from triten.dispatch.core.tensor_function import overridable
        >>> @overridable
        ... def twice(x):
        ...     return x + x
        >>> class Text:
        ...     @classmethod
        ...     def __tensor_function__(cls, func, types, args=(), kwargs=None):
        ...         return func.__name__
        >>> twice(2), twice(Text())
        (4, 'twice')
    """

    names = {
        "_function": function,
        "has_tensor_function": has_tensor_function,
        "handle_tensor_function": handle_tensor_function,
        "hide_inner_frames": hide_inner_frames,
        "plain_classes": plain_classes,
        "_numpy_names": {},
        "__builtins__": __builtins__,
        "__name__": function.__module__,
    }
    # Own globals instead of free variables: a function mode exchanges the code of public functions.
    public = names["_public"] = FunctionType(_asking_first.__code__, names, function.__name__)
    for each in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(public, each, getattr(function, each))
    public.__wrapped__ = function  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]


def body_of(public: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function that `overridable` made public, whose inner calls check again; None for other callables.

    A handler calls it for functions that it does not implement.

    Example:
        >>> from triten.dispatch.core.tensor_function import body_of, overridable
        >>> def twice(x):
        ...     return x + x
        >>> body_of(overridable(twice)) is twice, body_of(twice)
        (True, None)
    """
    if getattr(public, "__globals__", {}).get("_public") is not public:
        return None
    body: Callable[..., Any] = public.__globals__["_function"]
    return body


def numpy_named(public: Function, **more: str) -> Function:
    """Let a function that `overridable` made accept NumPy's parameter names, as operators do.

    It is for functions that PyTorch's argument parser serves. A call without such names pays nothing.

    Args:
        public: The function.
        more: Further names, each with the parameter's own.

    Example:
        >>> from triten.dispatch.core.tensor_function import numpy_named, overridable
        >>> @numpy_named
        ... @overridable
        ... def size(input, dim):
        ...     return input[dim]
        >>> size((2, 3), axis=1)
        3
    """
    names: dict[str, Any] = public.__globals__
    code = names["_function"].__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names["_numpy_names"] = {
        name: own for name, own in OWN_NAMES.items() if own in parameters and name not in parameters
    } | more
    return public


def _asking_first(*args: Any, **kwargs: Any) -> Any:
    """Run the shared code of every public function that `overridable` makes; each supplies its own globals."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if value.__class__ not in plain_classes:
            # Mostly sizes and dims: the slow check takes three times as long as this one.
            if value.__class__ is tuple and plain_classes.issuperset(map(type, value)):
                continue
            relevant = (*args, *kwargs.values())
            if has_tensor_function(relevant):
                try:
                    return handle_tensor_function(_public, relevant, *args, **kwargs)  # type: ignore[name-defined]  # noqa: F821
                except BaseException:
                    hide_inner_frames()
                    raise
            break
    try: return _function(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821  # fmt: skip
    except TypeError:
        own = {_numpy_names.get(name, name): value for name, value in kwargs.items()}  # type: ignore[name-defined]  # noqa: F821
        if own.keys() == kwargs.keys() or len(own) < len(kwargs):
            hide_inner_frames()
            raise
    except BaseException:
        hide_inner_frames()
        raise
    try: return _function(*args, **own)  # type: ignore[name-defined]  # noqa: F821  # fmt: skip
    except BaseException:
        hide_inner_frames()
        raise
