"""Batching rules of functional forms of views and writes (`functional_forms.yaml`): those of the original operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....runtime.dispatch_key import Functionality, functionality_bit
from ....runtime.scalar_type import bool_
from ....runtime.tensor_impl import TensorImpl
from ...generated import functions as ops
from . import random, views
from .layout import Batch, Dims, Rule, aligned, rank_of, whole
from .pointwise import unary

if TYPE_CHECKING:
    from ...tensor import Tensor

_BATCHED = functionality_bit(Functionality.Batched)


def copied(view: Rule) -> Rule:
    """Return the rule of a view's copy."""

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        result, dim = view(batch, dims, *args)
        return result.clone(), dim

    return rule


def _copy_for(src: Any, x: Tensor) -> Tensor:
    """Return a copy of `x` into which `src` can be written: outer vmap levels that map only `src` map the copy too."""
    if not (isinstance(src, TensorImpl) and src._spec.keys & _BATCHED):
        return x.clone()
    mapped: Any = src
    return ops.where(mapped.new_ones((), dtype=bool_), x, x)


def scattered(view: Rule) -> Rule:
    """Return the rule of ``x_scatter``: copy the tensor, and write to the copy's view."""

    def rule(batch: Batch, dims: Dims, self: Tensor, src: Tensor, *args: Any) -> tuple[Any, Any]:
        out = _copy_for(src, whole(self, dims[0], batch.size))
        target, dim = view(batch, (0,), out, *args)
        target.copy_(aligned(src, dims[1], rank_of(target, dim)))
        return out, 0

    return rule


def written(batch: Batch, dims: Dims, self: Tensor, value: Tensor, *rest: Any) -> tuple[Any, Any]:
    """Run `copy`, or `fill` with a tensor: broadcast the value to the shape of the first argument."""
    out = _copy_for(value, whole(self, dims[0], batch.size))
    return out.copy_(aligned(value, dims[1], rank_of(self, dims[0]))), 0


def drawn(batch: Batch, dims: Dims, self: Tensor, *args: Any) -> tuple[Any, Any]:
    """Run `uniform` and similar operators with the random numbers of their in-place forms."""
    if batch.level.randomness == "same":
        if any(d is not None for d in dims[1:]):
            random.refuse_same(batch)
        example = self if dims[0] is None else self.select(dims[0], 0)
        return batch.op.call(example, *args), None
    aligned_args = [aligned(a, d, rank_of(self, dims[0])) for a, d in zip(args, dims[1:], strict=True)]
    return batch.op.call(whole(self, dims[0], batch.size), *aligned_args), 0


_COPIES = {
    "_strided_copy": "_strided_from",
    "alias_copy": "alias",
    "detach_copy": "detach",
    "diagonal_copy": "diagonal",
    "expand_copy": "expand",
    "permute_copy": "permute",
    "select_copy.int": "select.int",
    "slice_copy.Tensor": "slice.Tensor",
    "squeeze_copy": "squeeze",
    "squeeze_copy.dim": "squeeze.dim",
    "squeeze_copy.dims": "squeeze.dims",
    "t_copy": "t",
    "transpose_copy.int": "transpose.int",
    "unfold_copy": "unfold",
    "unsqueeze_copy": "unsqueeze",
    "view_as_complex_copy": "view_as_complex",
    "view_as_real_copy": "view_as_real",
    "view_copy": "view",
    "view_copy.dtype": "view.dtype",
}
_SCATTERS = {
    "_strided_scatter": "_strided_from",
    "diagonal_scatter": "diagonal",
    "select_scatter": "select.int",
    "slice_scatter": "slice.Tensor",
}
DRAWS = (
    "bernoulli.Tensor",
    "bernoulli.float",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "normal_functional",
    "random",
    "random.from",
    "random.to",
    "uniform",
)


def _of(names: dict[str, str], form: Callable[[Rule], Rule]) -> dict[str, Rule]:
    return {name: form(views.RULES[view]) for name, view in names.items()}


RULES: dict[str, Rule] = {
    **_of(_COPIES, copied),
    **_of(_SCATTERS, scattered),
    **dict.fromkeys(DRAWS, drawn),
    "copy": written,
    "fill.Tensor": written,
    "fill.Scalar": unary,
    "zero": unary,
    "lift_fresh_copy": unary,
}
