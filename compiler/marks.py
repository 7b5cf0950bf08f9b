"""Marks that programs put on functions for the compiler (`torch.compiler`), such as `disable`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import from_numpy

Function = TypeVar("Function", bound=Callable[..., Any])


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that causes a graph break when a compiled function calls it (`torch.compiler.disable`).

    Args:
        fn: The function. Default: None, which returns a decorator.
        recursive: No effect: functions that `fn` calls are not captured either.
        reason: The reason that `tt.compiler.explain` reports.

    Example:
        >>> import triten as tt
        >>> @tt.compiler.disable
        ... def logged(x):
        ...     return x + 1
        >>> tt.compile(lambda x: logged(x) * 2)(tt.ones(2))
        tensor([4., 4.])
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)

    @functools.wraps(fn)
    def outside_of_graphs(*args: Any, **kwargs: Any) -> Any:
        from .frontend import is_compiling

        if is_compiling():
            from .capture.unsupported import Unsupported

            name = getattr(fn, "__qualname__", type(fn).__name__)
            raise Unsupported(reason or f"{name} is under tt.compiler.disable")
        return fn(*args, **kwargs)

    return outside_of_graphs


def allow_in_graph(fn: Any) -> Any:
    """Return the function or functions unchanged: all are captured as they run (`torch.compiler.allow_in_graph`).

    Raises:
        AssertionError: one cannot be called.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise AssertionError(f"allow_in_graph expects a callable, got {type(fn)}")
    return fn


def assume_constant_result(fn: Function) -> Function:
    """Return the function unchanged (`torch.compiler.assume_constant_result`).

    Capture calls it once, and a result that is not a tensor is a constant of the graph.
    """
    return fn


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """Return the function unchanged: a region is captured with its caller (`torch.compiler.nested_compile_region`).

    Without a function, return a decorator.
    """
    return (lambda function: function) if fn is None else fn


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Function], Function]:
    """Return a decorator that leaves a function unchanged (`torch.compiler.substitute_in_graph`).

    The original function is captured as it runs.

    Raises:
        TypeError: `original_fn` is not a function.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of NumPy arrays as a function of tensors (`torch.compiler.wrap_numpy`).

    Arrays and tensors share memory. The result has no gradient.

    Example:
        >>> import triten as tt
        >>> tt.compiler.wrap_numpy(lambda x: x * 2)(tt.ones(2))
        tensor([2., 2.])
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _mapped(_as_tensor, fn(*_mapped(_as_array, args), **_mapped(_as_array, kwargs)))

    return wrapped


def _as_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def _as_tensor(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.generic):
        value = np.asarray(value)
    return from_numpy(value) if isinstance(value, np.ndarray) else value


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to each leaf of a nest of tuples, lists and dicts."""
    if isinstance(value, tuple | list):
        return type(value)(_mapped(function, each) for each in value)
    if isinstance(value, dict):
        return {name: _mapped(function, each) for name, each in value.items()}
    return function(value)
