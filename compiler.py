"""`tt.compile` and `tt.compiler` (`torch.compile`, `torch.compiler`): programs that ask for compilation run eagerly.

Nothing is compiled yet. `tt.compile` checks its arguments and returns what it was given, as PyTorch does with
``TORCHDYNAMO_DISABLE=1`` or ``disable=True``, and says so once in a process. The other functions mark or configure
what a compiler would do: they check their arguments, and the marks change nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from .dispatch.tensor import Tensor
from .dispatch.tensor_data import from_numpy
from .runtime.traceback_filter import api_boundary

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Backend = str | Callable[..., Any]

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile",
    "fail_on_recompile",
)  # fmt: skip

_warned = False
_default_backend: Backend = "inductor"


@overload
def compile(
    model: Function, *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: Backend | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> Function: ...  # fmt: skip
@overload
def compile(
    model: None = ..., *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: Backend | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> Callable[[Function], Function]: ...  # fmt: skip
@api_boundary
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """The model or function itself, which runs eagerly (`torch.compile` with ``disable=True``).

    Nothing is compiled yet, so nothing becomes faster; a warning says so once in a process, unless `disable` is true.
    PyTorch returns an `OptimizedModule` around a module, whose state dict has longer names.

    Args:
        model: a function or a module; without one, a decorator is returned.
        fullgraph: has no effect.
        dynamic: has no effect.
        backend: has no effect.
        mode: one of PyTorch's modes; has no effect.
        options: has no effect.
        name: has no effect.
        disable: ask for what happens anyway, without the warning.
        recompile_limit: has no effect.
        isolate_recompiles: has no effect.
        shapes_spec: has no effect.

    Returns:
        `model`; without one, a decorator that returns what it decorates.

    Raises:
        AssertionError: `model` cannot be called.
        RuntimeError: `mode` is unknown, or given together with `options`.

    Example:
        >>> import triten as tt
        >>> module = tt.nn.Linear(2, 3)
        >>> tt.compile(module, disable=True) is module
        True
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")

    def compiled(function: Function) -> Function:
        if not callable(function):
            raise AssertionError(f"A callable function is expected, but {type(function)} is provided.")
        if not disable:
            _warn_once()
        return function

    if model is None:
        return api_boundary(compiled)
    return compiled(model)


def _warn_once() -> None:
    """Say that nothing is compiled, the first time that somebody asks for it."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        "compile: nothing is compiled, functions and modules run eagerly, as with disable=True", stacklevel=5
    )


def is_compiling() -> bool:
    """False: nothing is compiled or exported (`torch.compiler.is_compiling`)."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is compiled (`torch.compiler.is_dynamo_compiling`)."""
    return False


def is_exporting() -> bool:
    """False: nothing is exported (`torch.compiler.is_exporting`)."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself: all of them run eagerly (`torch.compiler.disable`). Without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function or functions themselves: there is no graph (`torch.compiler.allow_in_graph`).

    Raises:
        AssertionError: one cannot be called.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise AssertionError(f"allow_in_graph expects a callable, got {type(fn)}")
    return fn


def assume_constant_result(fn: Function) -> Function:
    """The function itself: it is called each time (`torch.compiler.assume_constant_result`)."""
    return fn


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """The function itself: no region is compiled (`torch.compiler.nested_compile_region`). Without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Function], Function]:
    """A decorator that leaves a function as it is: there is no graph (`torch.compiler.substitute_in_graph`).

    Raises:
        TypeError: `original_fn` is not a function.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of tensors (`torch.compiler.wrap_numpy`).

    Arrays and tensors share their memory. The result of one that needs a gradient has none.

    Example:
        >>> import triten as tt
        >>> tt.compiler.wrap_numpy(lambda x: x * 2)(tt.ones(2))
        tensor([2., 2.])
    """
    import functools

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
    """A nest of tuples, lists and dicts with a function of each of its leaves."""
    if isinstance(value, tuple | list):
        return type(value)(_mapped(function, each) for each in value)
    if isinstance(value, dict):
        return {name: _mapped(function, each) for name, each in value.items()}
    return function(value)


def reset() -> None:
    """Nothing is compiled, so nothing is forgotten (`torch.compiler.reset`)."""


def cudagraph_mark_step_begin() -> None:
    """Nothing is recorded by a compiler (`torch.compiler.cudagraph_mark_step_begin`); see `tt.cuda.CUDAGraph`."""


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """No compiler is there (`torch.compiler.list_backends`)."""
    return []


def set_default_backend(backend: Backend | None) -> None:
    """Which backend calls without one would ask for (`torch.compiler.set_default_backend`); None: PyTorch's."""
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> Backend:
    """What `set_default_backend` was given (`torch.compiler.get_default_backend`)."""
    return _default_backend


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Returns what was set before: there are no guards, so False (`torch.compiler.set_enable_guard_collectives`)."""
    return False


class set_stance:
    """How compiled functions are called, set at once, or for a block or a function (`torch.compiler.set_stance`).

    All run eagerly, whatever it is.

    Args:
        stance: one of PyTorch's.
        skip_guard_eval_unsafe: has no effect.
        force_backend: has no effect.

    Raises:
        RuntimeError: `stance` is unknown, or `force_backend` is given with another than the default.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Backend | None = None,
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in STANCES:
            raise RuntimeError(
                f"invalid torch.compile stance {stance!r}, should be one of: {', '.join(STANCES)}"
            )

    def __call__(self, fn: Function) -> Function:
        return fn

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *_: object) -> None:
        """Nothing changed."""
