"""Forward mode of a custom `Function`: its own `jvp` computes the tangents of `forward`'s results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from .forward_mode import below, fitted, is_differentiable, without_tangents
from .gradients import zeros_of
from .node import saved_version
from .saved_tensors import pack_as_hooked, without_hooks
from .tangents import BATCHED_BIT, set_tangents, tangents_of

if TYPE_CHECKING:
    from .function import FunctionCtx


def apply_forward(cls: Any, args: tuple[Any, ...], run: Callable[..., Any] | None = None) -> Any:
    """Run `Function.apply` with some dual arguments.

    Args:
        run: ``run(context, args)``, which applies the function without tangents and calls `context` for what it
            saves in; by default `Function._run`.

    Raises:
        NotImplementedError: The class has no `jvp` of its own.
        RuntimeError: `jvp` returns another number of tangents.
    """
    from .function import Function

    levels = sorted({level for tensor in tensors_in(args) for level in tangents_of(tensor)})
    if levels and cls.jvp is Function.jvp:
        raise NotImplementedError(
            f"{cls.__name__}: You must implement the jvp function for custom autograd.Function to use it with forward "
            "mode AD."
        )
    made: list[FunctionCtx] = []

    def context(function: Any, needs: tuple[bool, ...]) -> FunctionCtx:
        made.append(function._backward_cls(function, needs))
        return made[0]

    with without_tangents(), without_hooks():
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
    results = list(result) if isinstance(result, tuple | list) else [result]
    for saved, _, position in made[0]._saved:
        # The copy of a result that backward reads carries the result's tangents, for forward over reverse mode.
        if position >= 0 and isinstance(saved, TensorImpl):
            set_tangents(saved, tangents_of(results[position]))
    if made[0].next_edges:
        made[0]._saved = [
            (pack_as_hooked(saved), version, position) for saved, version, position in made[0]._saved
        ]
    return result


def _differentiate(cls: Any, ctx: FunctionCtx, args: Any, outputs: list[Any], level: int) -> None:
    tangents = [tangents_of(a).get(level) if isinstance(a, TensorImpl) else None for a in args]
    if ctx._materialize:
        tangents = [
            zeros_of(a._spec) if t is None and isinstance(a, TensorImpl) and is_differentiable(a) else t
            for a, t in zip(args, tangents, strict=True)
        ]
    before = ctx._saved, ctx._to_save_forward
    saved = [None if t is None else below(t, level) for t in ctx._to_save_forward]
    ctx._saved, ctx._to_save_forward = [(t, saved_version(t), -1) for t in saved], tuple(saved)
    versions = [None if t is None else t.version_cell()[0] for t in tangents]
    try:
        output_tangents = cls.jvp(ctx, *tangents)
    finally:
        ctx._saved, ctx._to_save_forward = before
    output_tangents = (
        list(output_tangents) if isinstance(output_tangents, tuple | list) else [output_tangents]
    )
    if len(output_tangents) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
            f"{len(output_tangents)}): {cls.__name__}.forward returned {len(outputs)}"
        )
    for position, (output, tangent) in enumerate(zip(outputs, output_tangents, strict=True)):
        if tangent is None or not isinstance(output, TensorImpl):
            continue
        _check_tangent(ctx, position, output, tangent)
        _check_sharing(ctx, args, output, tangent, tangents, versions, level)
        view = output._view_base is not None
        made = fitted(output, tangent, tangents, is_view=view)
        set_tangents(output, {**tangents_of(output), level: made})


def _check_tangent(ctx: FunctionCtx, position: int, output: TensorImpl, tangent: Any) -> None:
    """Raise RuntimeError for a value that cannot be the tangent of the output at `position`."""
    if not isinstance(tangent, TensorImpl):
        raise RuntimeError(
            f"expected Variable or None (got {type(tangent).__name__}) for grad output {position}."
        )
    if not is_differentiable(output) or any(output is each for each in ctx._non_differentiable):
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {position}, but the corresponding forward output is not "
            "a differentiable Tensor. You should return None at that position instead."
        )
    if tangent._spec.sizes != output._spec.sizes:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(output._spec.sizes)} while the given forward gradient is of size "
            f"{list(tangent._spec.sizes)}."
        )


def _check_sharing(
    ctx: FunctionCtx,
    args: Sequence[Any],
    output: TensorImpl,
    tangent: TensorImpl,
    tangents: Sequence[Any],
    versions: Sequence[int | None],
    level: int,
) -> None:
    """Raise RuntimeError unless a tangent shares memory with an input's where the output does.

    Args:
        ctx: The context of the call.
        args: The arguments of `forward`.
        output: One of its results.
        tangent: The tangent that `jvp` returned for the output.
        tangents: The arguments of `jvp`.
        versions: The versions of these before the call of `jvp`.
        level: The level of forward mode.
    """
    if output._spec.keys & BATCHED_BIT:
        return  # a batched tensor has no base
    base = output if output._view_base is None else output._view_base
    for value, input_tangent, version in zip(args, tangents, versions, strict=True):
        if not isinstance(value, TensorImpl) or level not in tangents_of(value):
            continue
        if output is value and any(output is written for written in ctx._written):
            if input_tangent.version_cell()[0] == version:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward "
                    "is modifying an input inplace, then the jvp function must modify the corresponding gradient "
                    "inplace."
                )
            if tangent is not input_tangent:
                raise RuntimeError(
                    "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the gradient inplace and return it "
                    "as-is."
                )
            return
        source = value if value._view_base is None else value._view_base
        if source is base and tangent._view_base is None:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                "view."
            )
        if source is base and input_tangent._view_base is None and tangent._view_base is not input_tangent:
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
            )
        if (
            source is base
            and input_tangent._view_base is not None
            and tangent._view_base is not input_tangent._view_base
        ):
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of the same base as the "
                "given grad input."
            )
