"""Associative scan (prefix sum) in a logarithmic number of rounds.

Source: Blelloch, "Prefix Sums and Their Applications", 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dispatch.generated import functions as _ops
from ..dispatch.layers.vmap import vmap
from ..runtime.tensor_impl import TensorImpl
from ..utils import _pytree as pytree

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Compute an inclusive scan with an associative function.

    Counterpart of `torch._higher_order_ops.associative_scan.associative_scan`.

    Args:
        combine_fn: An associative function of two trees with the structure of `xs`, which returns a tree of that
            structure. It must be differentiable for gradients to pass.
        xs: A tensor, or a tree of tensors that have the same length in `dim`.
        dim: The dimension to scan.
        reverse: If True, scan from the last element to the first. Default: False.
        combine_mode: ``"pointwise"``, for CUDA only, calls `combine_fn` with many elements at once. ``"generic"`` calls
            it with single elements, without `dim`, through `vmap`.

    Returns:
        A tree with the structure of `xs`.

    Raises:
        ValueError: `combine_fn` is not callable, `dim` is not an int, or the mode is unknown. `xs` has no leaves, a
            leaf is not a dense tensor or is empty in `dim`, or a leaf is not on CUDA in the mode "pointwise".
        RuntimeError: `reverse` is not a bool, or `combine_fn` returns another structure, shape or dtype.
        IndexError: `dim` is out of range for the first leaf.

    Example:
        >>> import triten as tt
        >>> from triten._higher_order_ops.associative_scan import associative_scan
        >>> associative_scan(lambda a, b: a * b, tt.tensor([1, 2, 3, 4]), 0, combine_mode="generic")
        tensor([ 1,  2,  6, 24])
    """
    leaves, spec = pytree.tree_flatten(xs)
    scan_dim = _check(combine_fn, leaves, dim, reverse, combine_mode)
    combine = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)

    def combined(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        result = combine(pytree.tree_unflatten(left, spec), pytree.tree_unflatten(right, spec))
        made, made_spec = pytree.tree_flatten(result)
        if made_spec != spec:
            raise RuntimeError(
                f"associative_scan: expected combine_fn to return a tree as xs, {spec}, got {made_spec}"
            )
        for leaf, combined_leaf in zip(left, made, strict=True):
            if combined_leaf.shape != leaf.shape or combined_leaf.dtype is not leaf.dtype:
                raise RuntimeError(
                    "associative_scan: expected combine_fn to return tensors as it takes, of the shape "
                    f"{tuple(leaf.shape[1:])} and {leaf.dtype}, got {tuple(combined_leaf.shape[1:])} "
                    f"and {combined_leaf.dtype}"
                )
        return made

    moved = [leaf.movedim(scan_dim, 0) for leaf in leaves]
    if reverse:
        moved = [leaf.flip(0) for leaf in moved]
    scanned = _scan(combined, moved)
    if reverse:
        scanned = [leaf.flip(0) for leaf in scanned]
    return pytree.tree_unflatten([leaf.movedim(0, scan_dim) for leaf in scanned], spec)


def _check(combine_fn: object, leaves: list[Any], dim: object, reverse: object, combine_mode: object) -> int:
    """Check the arguments as PyTorch does, and return the dimension, counted from the front."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if any(not isinstance(leaf, TensorImpl) for leaf in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if combine_mode == "pointwise" and any(leaf.device.type != "cuda" for leaf in leaves):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    if any(leaf.is_sparse for leaf in leaves):
        raise ValueError("xs leaves must dense Tensors, consider using `to_dense()`")
    rank = leaves[0].dim()
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got {dim})"
        )
    scan_dim: int = dim % rank
    if any(leaf.dim() <= scan_dim or not leaf.size(scan_dim) for leaf in leaves):
        raise ValueError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0, got the shapes "
            + ", ".join(str(tuple(leaf.shape)) for leaf in leaves)
        )
    return scan_dim


def _scan(
    combined: Callable[[list[Tensor], list[Tensor]], list[Tensor]], leaves: list[Tensor]
) -> list[Tensor]:
    """Compute an inclusive scan along the first dimension."""
    length = leaves[0].size(0)
    if length < 2:
        return leaves
    # Odd positions are the scan of the pairs. Each even position combines the odd one before it with its element.
    odd = _scan(
        combined, combined([leaf[: length - 1 : 2] for leaf in leaves], [leaf[1::2] for leaf in leaves])
    )
    even = [leaf[:1] for leaf in leaves]
    if length > 2:
        later = combined([leaf[: (length - 1) // 2] for leaf in odd], [leaf[2::2] for leaf in leaves])
        even = [_ops.cat([first, rest]) for first, rest in zip(even, later, strict=True)]
    return [_interleaved(first, second) for first, second in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Interleave two tensors along the first dimension; `even` may have one more element."""
    pairs = _ops.stack([even[: odd.size(0)], odd], 1).flatten(0, 1)
    return pairs if even.size(0) == odd.size(0) else _ops.cat([pairs, even[-1:]])
