"""Application of a function to each slice of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.generated import functions as _ops
from ..runtime.tensor_impl import TensorImpl
from ..utils import _pytree as pytree

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Apply a function to each slice along the first dimension, and stack the results (`torch._higher_order_ops.map`).

    The calls are ordinary ones, in order: gradients pass, and a recording contains the steps of each call.

    Args:
        f: A function of one slice and `args`, which returns a tensor or a tree of tensors.
        xs: A tensor, or a tree of tensors with the same size of the first dimension.
        args: Further arguments of each call.

    Returns:
        A tree with the structure of `f`'s results, stacked along a new first dimension.

    Raises:
        RuntimeError: `xs` has no leaves or a leaf that is no tensor. The first dimension is missing, empty, or of
            different sizes. The calls return trees of different structures.

    Example:
        >>> import triten as tt
        >>> from triten._higher_order_ops import map
        >>> map(lambda x, y: x.sum() + y, tt.tensor([[1, 2], [3, 4]]), 10)
        tensor([13, 17])
    """
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(leaf, TensorImpl) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [leaf.shape for leaf in leaves]
    if not all(shapes) or len({shape[0] for shape in shapes}) > 1:
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    results: list[list[Any]] = []
    structure = None
    for slices in zip(*[leaf.unbind(0) for leaf in leaves], strict=True):
        made, made_structure = pytree.tree_flatten(f(pytree.tree_unflatten(slices, spec), *args))
        if structure is not None and made_structure != structure:
            raise RuntimeError(f"map: expected f to return {structure} for each slice, got {made_structure}")
        structure = made_structure
        results.append(made)
    assert structure is not None
    return pytree.tree_unflatten([_ops.stack(each) for each in zip(*results, strict=True)], structure)
