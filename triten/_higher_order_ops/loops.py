"""Loops over tensors: `scan` carries a state along a dimension, `while_loop` repeats a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.generated import functions as _ops
from ..runtime.tensor_impl import TensorImpl
from ..utils import _pytree as pytree

__all__ = ["scan", "while_loop"]


def _same_metadata(before: list[Any], after: list[Any]) -> bool:
    """Return whether leaves have the same number, dtypes and sizes."""
    described = [
        [(leaf.shape, leaf.dtype) if isinstance(leaf, TensorImpl) else type(leaf) for leaf in leaves]
        for leaves in (before, after)
    ]
    return described[0] == described[1]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a state along a dimension of tensors, and stack the outputs (`torch._higher_order_ops.scan`).

    The calls are ordinary ones, in order: gradients pass, and a recording contains the steps of each call.

    Args:
        combine_fn: A function of the state and of a slice of `xs`, which returns the next state and an output. States
            and outputs are trees of tensors.
        init: The first state.
        xs: A tensor, or a tree of tensors of the same size in `dim`.
        dim: The dimension of the slices. Default: 0.
        reverse: If True, begin with the last slice. Outputs keep the order of the slices. Default: False.

    Returns:
        The last state, and a tree with the structure of the outputs, stacked along a new dimension `dim`.

    Raises:
        RuntimeError: `init` or `xs` has no leaves or a leaf that is no tensor. The sizes of `xs` in `dim` differ or
            are 0. The state changes its structure, sizes or dtypes.

    Example:
        >>> import triten as tt
        >>> from triten._higher_order_ops import scan
        >>> scan(lambda total, x: (total + x, total * x), tt.tensor(0), tt.tensor([1, 2, 3]))
        (tensor(6), tensor([0, 2, 9]))
    """
    state, state_spec = pytree.tree_flatten(init)
    slices, slice_spec = pytree.tree_flatten(xs)
    for name, leaves in (("init", state), ("xs", slices)):
        if not leaves or not all(isinstance(leaf, TensorImpl) for leaf in leaves):
            raise RuntimeError(f"scan(): {name} must be a tensor or a tree of tensors, got {leaves!r:.100}")
    if any(leaf.ndim == 0 for leaf in slices) or len({leaf.size(dim) for leaf in slices}) > 1:
        shapes = [tuple(leaf.shape) for leaf in slices]
        raise RuntimeError(f"scan(): all xs leaves must have the same size in dimension {dim}, got {shapes}")
    count = slices[0].size(dim)
    if count == 0:
        raise RuntimeError("scan(): xs leaves must have a scan dimension > 0")
    rows: list[list[Any]] = []
    output_spec = None
    for i in reversed(range(count)) if reverse else range(count):
        carried, output = combine_fn(
            pytree.tree_unflatten(state, state_spec),
            pytree.tree_unflatten([leaf.select(dim, i) for leaf in slices], slice_spec),
        )
        following, following_spec = pytree.tree_flatten(carried)
        if following_spec != state_spec or not _same_metadata(state, following):
            raise RuntimeError(
                "scan(): combine_fn must return a state of the structure, sizes and dtypes of init, got "
                f"{[getattr(leaf, 'shape', leaf) for leaf in following]!r:.200}"
            )
        state = following
        row, output_spec = pytree.tree_flatten(output)
        rows.append(row)
    if reverse:
        rows.reverse()
    assert output_spec is not None
    at = dim % slices[0].ndim
    stacked = [_ops.stack(column, at) for column in zip(*rows, strict=True)]
    return pytree.tree_unflatten(state, state_spec), pytree.tree_unflatten(stacked, output_spec)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[Any, ...]:
    """Repeat a function of tensors while a condition holds (`torch._higher_order_ops.while_loop`).

    The calls are ordinary ones: gradients pass. A tracer that knows no values cannot evaluate the condition.

    Args:
        cond_fn: A function of the carried values, which returns a bool or a tensor of one bool.
        body_fn: A function of the carried values, which returns the next ones, as many and of the same sizes.
        carried_inputs: A tuple or list of the first values: tensors, ints, and trees of them.

    Returns:
        A tuple of the values for which the condition is false.

    Raises:
        RuntimeError: `carried_inputs` is no tuple or list. `cond_fn` returns another object. `body_fn` returns values
            of another structure, size or dtype.

    Example:
        >>> import triten as tt
        >>> from triten._higher_order_ops import while_loop
        >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tt.tensor(0), tt.ones(2)))
        (tensor(3), tensor([8., 8.]))
    """
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(
            f"while_loop(): carried_inputs must be a tuple, got {type(carried_inputs).__name__}"
        )
    values = tuple(carried_inputs)
    leaves, spec = pytree.tree_flatten(values)
    while True:
        holds = cond_fn(*values)
        if not isinstance(holds, bool) and not (isinstance(holds, TensorImpl) and holds.numel() == 1):
            raise RuntimeError(
                f"while_loop(): cond_fn must return a bool or a tensor of one bool, got {holds!r:.100}"
            )
        if not holds:
            return values
        made = body_fn(*values)
        values = tuple(made) if isinstance(made, list | tuple) else (made,)
        following, following_spec = pytree.tree_flatten(values)
        if following_spec != spec or not _same_metadata(leaves, following):
            raise RuntimeError(
                "while_loop(): body_fn must return values of the structure, sizes and dtypes of carried_inputs, got "
                f"{[getattr(leaf, 'shape', leaf) for leaf in following]!r:.200}"
            )
