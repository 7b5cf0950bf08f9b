"""`tt.compile`: a function or module that runs as graphs, captured as it is called."""

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
    """A function or module that computes the same, with pointwise operators fused into kernels (`torch.compile`).

    A call runs the function once on fake tensors, which records the operators that it calls, with their derivative if
    gradients are on. Later calls run the recorded graph, as long as arguments look alike (shapes, strides, dtypes,
    devices, requires-grad, Python values) and all that the Python code read is what it was: attributes of modules,
    globals, closures. At a statement that cannot be recorded, as it reads a tensor's value, changes Python objects or
    prints, the function is split: Python runs the statement, and what stands around it, and what it calls, has graphs
    of its own. `tt.compiler.explain` tells where and why.

    Args:
        model: a function or a module; without one, a decorator is returned.
        fullgraph: raise `tt.compiler.Unsupported` where the function cannot be recorded as one graph.
        dynamic: False captures each choice of sizes by itself. Otherwise dimensions that differ between two calls vary
            from then on: further sizes get their graphs without capturing, where sizes do not decide what is computed.
        backend: a name of `tt.compiler.list_backends(())`, or a function from a graph and example inputs to a function.
        mode: one of PyTorch's modes. ``"reduce-overhead"`` captures what runs on CUDA as CUDA graphs;
            ``"max-autotune-no-cudagraphs"`` times candidates of the kernels on a GPU, ``"max-autotune"`` does both. On
            the CPU all are the default one.
        options: ``{"triton.cudagraphs": True}`` and ``{"max_autotune": True}`` do the same; others of PyTorch's have no
            effect.
        name: what the function is called in messages.
        disable: give back `model` as it is.
        recompile_limit: the most graphs of the function, or of each of its parts, 8 unless given; calls that none
            serves then run eagerly.
        isolate_recompiles: has no effect: every call of `compile` has graphs of its own.
        shapes_spec: has no effect yet.

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
        # Late, so that importing the package does not import what compiles.
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
    """Which backend calls of `tt.compile` without one have (`torch.compiler.set_default_backend`); None: PyTorch's."""
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> BackendName:
    """What `set_default_backend` was given (`torch.compiler.get_default_backend`)."""
    return _default_backend


def is_compiling() -> bool:
    """Whether this thread captures a function (`torch.compiler.is_compiling`).

    Example:
        >>> import triten as tt
        >>> tt.compiler.is_compiling()
        False
    """
    from .capture.recording import capturing

    return capturing.depth > 0


def is_dynamo_compiling() -> bool:
    """Whether this thread captures a function (`torch.compiler.is_dynamo_compiling`)."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether this thread captures a module for `tt.export` (`torch.compiler.is_exporting`)."""
    from .capture.recording import capturing

    return capturing.exports > 0


def reset() -> None:
    """Forget all graphs of all compiled functions (`torch.compiler.reset`)."""
    from .optimized import forget_all

    forget_all()


def cudagraph_mark_step_begin() -> None:
    """Has no effect: results of earlier calls stay valid, since no CUDA graph is replayed into memory that somebody
    still holds (`torch.compiler.cudagraph_mark_step_begin`)."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Returns what was set before: guards are not compared between processes, so False
    (`torch.compiler.set_enable_guard_collectives`)."""
    return False
