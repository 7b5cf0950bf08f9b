"""Forward mode of a custom `Function`: its own `jvp` computes the tangents of `forward`'s results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from .forward_mode import below, fitted, is_differentiable, without_tangents
from .gradients import zeros_of
from .node import saved_version
from .tangents import set_tangents, tangents_of

if TYPE_CHECKING:
    from .function import FunctionCtx


def apply_forward(cls: Any, args: tuple[Any, ...], run: Callable[..., Any] | None = None) -> Any:
    """Run `Function.apply` with arguments of which some are dual.

    Args:
        run: ``run(context, args)``, which applies the function without tangents and calls `context` for what it
            saves in; by default `Function._run`.

    Raises:
        NotImplementedError: The class has no `jvp` of its own.
        RuntimeError: `jvp` returns another number of tangents.
    """
    from .function import Function, FunctionCtx

    levels = sorted({level for tensor in tensors_in(args) for level in tangents_of(tensor)})
    if levels and cls.jvp is Function.jvp:
        raise NotImplementedError(
            f"{cls.__name__}: You must implement the jvp function for custom autograd.Function to use it with forward "
            "mode AD."
        )
    made: list[FunctionCtx] = []

    def context(function: Any, needs: tuple[bool, ...]) -> FunctionCtx:
        made.append(FunctionCtx(function, needs))
        return made[0]

    with without_tangents():
        if run is None:
            result = cls._run(context, args, [i for i, a in enumerate(args) if isinstance(a, TensorImpl)])
        else:
            result = run(context, args)
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    for output in tensors_in(outputs):
        if not any(output is a for a in args):
            set_tangents(output, {})
    for level in levels:
        _differentiate(cls, made[0], args, outputs, level)
    given = list(result) if isinstance(result, tuple | list) else [result]
    for kept, _, position in made[0]._saved:
        # The copy of a result that backward reads carries the result's tangents, for forward over reverse mode.
        if position >= 0 and isinstance(kept, TensorImpl):
            set_tangents(kept, tangents_of(given[position]))
    return result


def _differentiate(cls: Any, ctx: FunctionCtx, args: Any, outputs: list[Any], level: int) -> None:
    tangents = [tangents_of(a).get(level) if isinstance(a, TensorImpl) else None for a in args]
    if ctx._materialize:
        tangents = [
            zeros_of(a._spec) if t is None and isinstance(a, TensorImpl) and is_differentiable(a) else t
            for a, t in zip(args, tangents, strict=True)
        ]
    before = ctx._saved, ctx._to_save_forward
    kept = [None if t is None else below(t, level) for t in ctx._to_save_forward]
    ctx._saved, ctx._to_save_forward = [(t, saved_version(t), -1) for t in kept], tuple(kept)
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        ctx._saved, ctx._to_save_forward = before
    found = list(found) if isinstance(found, tuple | list) else [found]
    if len(found) != len(outputs):
        raise RuntimeError(
            f"{cls.__name__}: jvp returned {len(found)} tangents, expected {len(outputs)}, as forward returned"
        )
    for output, tangent in zip(outputs, found, strict=True):
        if tangent is not None and isinstance(output, TensorImpl) and is_differentiable(output):
            view = output._view_base is not None
            made = fitted(output, tangent, tangents, is_view=view)
            set_tangents(output, {**tangents_of(output), level: made})
