"""`tt.compile`: compilation of a function or module, captured at its first call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..runtime.traceback_filter import api_boundary

Function = TypeVar("Function", bound=Callable[..., Any])
BackendName = str | Callable[..., Any]

_default_backend: BackendName = "inductor"


@overload
def compile(
    model: Function, *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: BackendName | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> Function: ...  # fmt: skip
@overload
def compile(
    model: None = ..., *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: BackendName | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> Callable[[Function], Function]: ...  # fmt: skip
@api_boundary
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: BackendName | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Compile a function or module: fuse its operators into kernels (`torch.compile`).

    The first call runs the function on fake tensors, which records its operators, and their derivative if gradients
    are on.
    Later calls run the recorded graph while its guards hold. The guards check:

    - the metadata of arguments: shapes, strides, dtypes, devices, requires-grad, Python values;
    - all that the Python code read: attributes of modules, globals, closures.

    A statement that cannot be captured is a graph break: it reads a tensor's value, changes Python objects or prints.
    Python runs this statement; the code around it, and the functions that it calls, have graphs of their own.
    `tt.compiler.explain` tells where and why.

    Args:
        model: A function or a module. Default: None, which returns a decorator.
        fullgraph: If True, raise `tt.compiler.Unsupported` at a graph break. Default: False.
        dynamic: If False, capture each choice of sizes separately. Otherwise dimensions that differ between two calls
            are dynamic from then on: further sizes need no capture, unless sizes decide what is computed.
        backend: A name of `tt.compiler.list_backends(())`, or a function from a graph and example inputs to a
            function.
        mode: One of PyTorch's modes. ``"reduce-overhead"`` captures CUDA programs as CUDA graphs.
            ``"max-autotune-no-cudagraphs"`` autotunes GPU kernels. ``"max-autotune"`` does both. On the CPU all modes
            equal the default.
        options: ``{"triton.cudagraphs": True}`` and ``{"max_autotune": True}`` do the same; PyTorch's other options
            have no effect.
        name: Name of the function in messages.
        disable: If True, return `model` unchanged. Default: False.
        recompile_limit: Maximum number of graphs of the function, or of each of its parts. Default: 8. Calls beyond
            the limit run eagerly.
        isolate_recompiles: No effect: every call of `compile` has graphs of its own.
        shapes_spec: No effect yet.

    Returns:
        For a function, a function; for a module, an `OptimizedModule` over it; without `model`, a decorator.

    Raises:
        AssertionError: `model` cannot be called.
        RuntimeError: `mode` or `backend` is unknown, or `mode` given together with `options`.

    Source: `torch.compile`.

    Example:
        >>> import triten as tt
        >>> @tt.compile
        ... def f(a, b, c):
        ...     return tt.relu((a + b) * c)
        >>> f(tt.ones(2), tt.ones(2), tt.tensor([1.0, -1.0]))
        tensor([2., 0.])
    """
    from .options import options_of

    how = options_of(mode, options, dynamic)

    def compiled(function: Any) -> Any:
        if not callable(function):
            raise AssertionError(f"A callable function is expected, but {type(function)} is provided.")
        if disable:
            return function
        # Imported late, so that importing the package does not import the compiler.
        from ..nn.modules.module import Module
        from .backends import find_backend
        from .optimized import OptimizedFunction
        from .optimized_module import OptimizedModule

        chosen = find_backend(_default_backend if backend is None else backend)
        if isinstance(function, Module):
            return OptimizedModule(function, chosen, fullgraph, recompile_limit, how)
        made = OptimizedFunction(function, chosen, fullgraph, recompile_limit, how)
        if name is not None:
            made.name = name

        @functools.wraps(function)
        def optimized(*args: Any, **kwargs: Any) -> Any:
            return made(*args, **kwargs)

        optimized._optimized = made  # type: ignore[attr-defined]
        optimized._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
        return optimized

    if model is None:
        return api_boundary(compiled)
    return compiled(model)


def set_default_backend(backend: BackendName | None) -> None:
    """Set the default backend of `tt.compile` (`torch.compiler.set_default_backend`). None restores PyTorch's
    default."""
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> BackendName:
    """Return the backend set by `set_default_backend` (`torch.compiler.get_default_backend`)."""
    return _default_backend


def is_compiling() -> bool:
    """Return True if this thread is capturing a function (`torch.compiler.is_compiling`).

    Example:
        >>> import triten as tt
        >>> tt.compiler.is_compiling()
        False
    """
    from .capture.recording import capturing

    return capturing.depth > 0


def is_dynamo_compiling() -> bool:
    """Return True if this thread is capturing a function (`torch.compiler.is_dynamo_compiling`)."""
    return is_compiling()


def is_exporting() -> bool:
    """Return True if this thread is capturing a module for `tt.export` (`torch.compiler.is_exporting`)."""
    from .capture.recording import capturing

    return capturing.exports > 0


def reset() -> None:
    """Forget all graphs of all compiled functions (`torch.compiler.reset`)."""
    from .optimized import forget_all

    forget_all()


def cudagraph_mark_step_begin() -> None:
    """Do nothing (`torch.compiler.cudagraph_mark_step_begin`).

    Results of earlier calls stay valid: no CUDA graph is replayed into memory that is still referenced.
    """


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Return the previous setting, always False (`torch.compiler.set_enable_guard_collectives`).

    Guards are not compared between processes.
    """
    return False
