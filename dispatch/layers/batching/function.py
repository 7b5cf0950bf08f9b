"""`tt.autograd.Function` inside vmap: the user's own rule, or one generated from forward and backward.

Source: torch/_functorch/autograd_function.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ....runtime.grad_mode import is_grad_enabled
from ....runtime.tensor_impl import TensorImpl
from ...autograd.function import Function, FunctionCtx, refuse_without_setup
from ...autograd.function_jvp import apply_forward
from ...autograd.node import edge_of, saved_version
from ...autograd.reduce_to_spec import is_expandable_to, sum_to_size
from ...autograd.tangents import FORWARD_BIT
from ..batched_tensor import batched, level_of, refuse_escaped, unbatched
from ..levels import VmapLevel, entered_vmap, run_below
from ..pytree import tree_flatten, tree_unflatten
from .custom import VmapInfo, check_out_dims

if TYPE_CHECKING:
    from ...tensor import Tensor


def apply_batched(cls: type[Function], args: Sequence[Any]) -> Any:
    """Run `cls.apply` with batched arguments.

    The innermost level's values are unwrapped, and the function is applied to them by its rule, so that outer levels
    record it. If an argument requires grad, the function of one example is recorded too.

    Raises RuntimeError for a function without rule, or one whose forward takes the context.
    """
    level: VmapLevel | None = None
    for value in args:
        value_level = level_of(value) if isinstance(value, TensorImpl) else None
        if value_level is not None:
            refuse_escaped(value_level, f"{cls.__name__}.apply")
            if level is None or value_level.number > level.number:
                level = value_level
    assert level is not None
    if level.is_old:
        return cls._apply(tuple(args))
    _check_rule(cls)
    if any(isinstance(a, TensorImpl) and a._spec.keys & FORWARD_BIT for a in args):
        return apply_forward(cls, tuple(args), partial(_run, cls, level))
    return _run(cls, level, None, args)


def _run(
    cls: type[Function], level: VmapLevel, context: Callable[..., FunctionCtx] | None, args: Sequence[Any]
) -> Any:
    """Apply the function on behalf of a level, and record it for one example if an argument requires grad.

    `context` makes the object in which the function saves; None if the function saves only when it is recorded.
    """
    tensors = [i for i, a in enumerate(args) if isinstance(a, TensorImpl)]
    needs = tuple(isinstance(a, TensorImpl) and a._spec.requires_grad for a in args)
    recording = is_grad_enabled() and any(needs)
    if context is None and not recording:
        return _apply_at(cls, level, args)
    ctx = cls._backward_cls(cls, needs) if context is None else context(cls, needs)
    edges = [edge_of(args[i]) if needs[i] else None for i in tensors]
    mine = [i for i in tensors if level_of(args[i]) is level]
    bare = [a.from_data(a._data, a._spec.detached) if i in mine else a for i, a in enumerate(args)]
    result = _apply_at(cls, level, bare)
    cls.setup_context(ctx, tuple(args), result)
    if not recording:
        return result
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    outputs = cls._record(ctx, args, tensors, edges, outputs)
    return type(result)(outputs) if isinstance(result, tuple | list) else outputs[0]


def _check_rule(cls: type[Function]) -> None:
    if issubclass(cls, _Generated):
        return
    name = cls.__name__
    if cls.setup_context is Function.setup_context:
        refuse_without_setup(cls)
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
            "ambiguity."
        )
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override and implement the "
            "vmap staticmethod or set generate_vmap_rule=True."
        )


def _apply_at(cls: type[Function], level: VmapLevel, args: Sequence[Any]) -> Any:
    """Apply the function on behalf of a level, and batch its results again."""
    values, opened_dims = _opened(args, level)
    dims = tuple(opened_dims)
    if cls.vmap is not Function.vmap:
        info = VmapInfo(level.batch_size, level.randomness)
        returned = run_below(level, cls.vmap, info, dims, *values)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise RuntimeError(
                f"Expected the vmap staticmethod of {cls.__name__} to have two returns, an output and out_dims with "
                f"pytree structure compatible with the output. Got a {type(returned)}."
            )
        output, out_dims = returned
        if isinstance(output, tuple | list) and not isinstance(out_dims, tuple | list):
            out_dims = [out_dims] * len(output)
        check_out_dims(cls.__name__, output, out_dims)
    else:
        generated = _generate(cls, level, dims)
        output = run_below(level, generated.apply, *values)
        out_dims = generated.out_dims
        out_dims = list(out_dims) if isinstance(output, tuple | list) else out_dims[0]
    if isinstance(output, tuple | list):
        made = [_wrapped(o, d, level) for o, d in zip(output, out_dims, strict=True)]
        return type(output)(made)
    return _wrapped(output, out_dims, level)


def _wrapped(value: Tensor, dim: int | None, level: VmapLevel) -> Tensor:
    return value if dim is None else batched(value, dim, level)


def _opened(values: Sequence[Any], level: VmapLevel) -> tuple[list[Any], list[int | None]]:
    """Return values outside of a level, and their mapped dimensions."""
    pairs = [unbatched(v, level) if isinstance(v, TensorImpl) else (v, None) for v in values]
    return [v for v, _ in pairs], [d for _, d in pairs]


def _reduced(grad: Tensor | None, sizes: tuple[int, ...] | None) -> Tensor | None:
    """Return one example's gradient, summed to its input's sizes if forward broadcast that input."""
    if (
        grad is None
        or sizes is None
        or grad._spec.sizes == sizes
        or not is_expandable_to(sizes, grad._spec.sizes)
    ):
        return grad
    return sum_to_size(grad, sizes)


class _Generated(Function):
    """The function of all examples that maps `source`'s forward, and its derivatives in either mode."""

    generate_vmap_rule = True
    source: type[Function]
    size: int
    randomness: str
    in_dims: tuple[int | None, ...]
    out_dims: list[int | None]

    @classmethod
    def forward(cls, *args: Tensor) -> Any:
        with entered_vmap(cls.size, cls.randomness) as level:
            result = cls.source.forward(*cls._mapped(args, cls.in_dims, level))
            leaves, spec = tree_flatten(result)
            values, cls.out_dims = _opened(leaves, level)
        return tree_unflatten(values, spec)

    @classmethod
    def setup_context(cls, ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        inner = cls.source._backward_cls(cls.source, ctx.needs_input_grad)
        leaves, spec = tree_flatten(output)
        with entered_vmap(cls.size, cls.randomness) as level:
            mapped_inputs = cls._mapped(inputs, cls.in_dims, level)
            results = cls._mapped(leaves, cls.out_dims, level)
            cls.source.setup_context(inner, tuple(mapped_inputs), tree_unflatten(results, spec))
            if inner._written:
                raise RuntimeError(
                    f"{cls.source.__name__}: a generated vmap rule cannot serve a Function that writes into its inputs "
                    "(mark_dirty); override the vmap staticmethod"
                )
            saved, saved_dims = _opened(inner._to_save, level)
            for_forward, forward_dims = _opened(inner._to_save_forward, level)
        constant = [id(o) for o in inner._non_differentiable]
        ctx.mark_non_differentiable(
            *[o for o, mapped in zip(leaves, results, strict=True) if id(mapped) in constant]
        )
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*for_forward)
        ctx.set_materialize_grads(inner._materialize)
        ctx.__dict__.update(
            inner=inner,
            input_sizes=[x._spec.sizes if isinstance(x, TensorImpl) else None for x in mapped_inputs],
            saved_dims=saved_dims,
            forward_dims=forward_dims,
            grad_dims=cls.out_dims,
        )

    @classmethod
    def _mapped(cls, values: Sequence[Any], dims: Sequence[int | None], level: VmapLevel) -> list[Any]:
        return [v if v is None else _wrapped(v, d, level) for v, d in zip(values, dims, strict=True)]

    @classmethod
    def _inner(cls, ctx: FunctionCtx, dims: str, level: VmapLevel) -> FunctionCtx:
        """Return the context of one example's function, with the tensors of `ctx` mapped."""
        inner: FunctionCtx = ctx.__dict__["inner"]
        saved = cls._mapped(ctx.saved_tensors, ctx.__dict__[dims], level)
        inner._saved = [(t, 0 if t is None else saved_version(t), -1) for t in saved]
        return inner

    @classmethod
    def jvp(cls, ctx: FunctionCtx, *tangents: Tensor | None) -> Any:
        with entered_vmap(cls.size, cls.randomness) as level:
            inner = cls._inner(ctx, "forward_dims", level)
            result = cls.source.jvp(inner, *cls._mapped(tangents, cls.in_dims, level))
            leaves = list(result) if isinstance(result, tuple | list) else [result]
            values, dims = _opened(leaves, level)
        fitting = [
            # The tangent of a result that all examples share is that of any of them.
            v.select(d, 0) if own is None and d is not None else cls._fitting(v, d, own)
            for v, d, own in zip(values, dims, ctx.__dict__["grad_dims"], strict=True)
        ]
        return type(result)(fitting) if isinstance(result, tuple | list) else fitting[0]

    @classmethod
    def backward(cls, ctx: FunctionCtx, *grads: Tensor) -> tuple[Any, ...]:
        with entered_vmap(cls.size, cls.randomness) as level:
            inner = cls._inner(ctx, "saved_dims", level)
            grad_shares = [
                cls._share(g, d, level) for g, d in zip(grads, ctx.__dict__["grad_dims"], strict=True)
            ]
            result = cls.source._gradient_formula()(inner, *grad_shares)
            results = result if isinstance(result, tuple | list) else (result,)
            others = [None] * (len(results) - len(cls.in_dims))
            opened = _opened(list(map(_reduced, results, [*ctx.__dict__["input_sizes"], *others])), level)
        dims = [*cls.in_dims, *others]
        return tuple([cls._fitting(g, d, own) for g, d, own in zip(*opened, dims, strict=True)])

    @classmethod
    def _share(cls, grad: Tensor | None, dim: int | None, level: VmapLevel) -> Tensor | None:
        """Return the gradient of an output for backward. An output shared by all examples gives each an equal share."""
        if grad is None:
            return None
        return grad / max(cls.size, 1) if dim is None else batched(grad, dim, level)

    @classmethod
    def _fitting(cls, grad: Tensor | None, dim: int | None, own: int | None) -> Tensor | None:
        """Return a gradient in the shape of its input: summed over the examples that share it, or repeated for each."""
        if grad is None:
            return None
        if own is None:
            return grad if dim is None else grad.sum(dim)
        if dim is not None:
            return grad if dim == own else grad.movedim(dim, own)
        wider = grad.unsqueeze(own)
        sizes = list(wider._spec.sizes)
        sizes[own] = cls.size
        return wider.expand(sizes)


def _generate(cls: type[Function], level: VmapLevel, dims: tuple[int | None, ...]) -> type[_Generated]:
    made: dict[str, Any] = {
        "source": cls,
        "size": level.batch_size,
        "randomness": level.randomness,
        "in_dims": dims,
        "out_dims": [],
    }
    if cls.jvp is Function.jvp:
        made["jvp"] = Function.jvp  # so that forward mode raises the same error as for the function itself
    return type(f"Vmapped{cls.__name__}", (_Generated,), made)
