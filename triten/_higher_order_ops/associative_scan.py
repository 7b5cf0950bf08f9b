"""Running results of an associative function, in as many rounds as the length has binary digits.

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
    """What a function makes of all elements up to each (`torch._higher_order_ops.associative_scan.associative_scan`).

    Args:
        combine_fn: takes two trees as `xs` is one, of elements along `dim`, and returns such a tree. It must be
            associative. Gradients pass through it.
        xs: a tensor, or a tree of tensors of the same length in `dim`.
        dim: along which elements are combined.
        reverse: whether each element is combined with those behind it, last one first.
        combine_mode: ``"pointwise"``, on CUDA only, where the function takes many elements at once, or ``"generic"``,
            where it takes one, without `dim`.

    Returns:
        A tree as `xs`.

    Raises:
        ValueError: for a function that cannot be called, a `dim` that is no int, another mode, trees without tensors,
            leaves that are no dense tensors or have nothing in `dim`, and leaves on the CPU in the mode "pointwise".
        RuntimeError: for a `reverse` that is no bool, and for a function that returns another tree, or tensors of other
            shapes or dtypes.
        IndexError: for a `dim` that the first leaf has not.

    Example:
        >>> import triten as tt
        >>> from triten._higher_order_ops.associative_scan import associative_scan
        >>> associative_scan(lambda a, b: a * b, tt.tensor([1, 2, 3, 4]), 0, combine_mode="generic")
        tensor([ 1,  2,  6, 24])
    """
    leaves, spec = pytree.tree_flatten(xs)
    place = _check(combine_fn, leaves, dim, reverse, combine_mode)
    combine = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)

    def combined(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        result = combine(pytree.tree_unflatten(left, spec), pytree.tree_unflatten(right, spec))
        made, made_spec = pytree.tree_flatten(result)
        if made_spec != spec:
            raise RuntimeError(
                f"associative_scan: expected combine_fn to return a tree as xs, {spec}, got {made_spec}"
            )
        for given, one in zip(left, made, strict=True):
            if one.shape != given.shape or one.dtype is not given.dtype:
                raise RuntimeError(
                    "associative_scan: expected combine_fn to return tensors as it takes, of the shape "
                    f"{tuple(given.shape[1:])} and {given.dtype}, got {tuple(one.shape[1:])} and {one.dtype}"
                )
        return made

    moved = [leaf.movedim(place, 0) for leaf in leaves]
    if reverse:
        moved = [leaf.flip(0) for leaf in moved]
    scanned = _scan(combined, moved)
    if reverse:
        scanned = [leaf.flip(0) for leaf in scanned]
    return pytree.tree_unflatten([leaf.movedim(0, place) for leaf in scanned], spec)


def _check(combine_fn: object, leaves: list[Any], dim: object, reverse: object, combine_mode: object) -> int:
    """The dimension, counted from the first. Raises for what PyTorch's function refuses."""
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
    place: int = dim % rank
    if any(leaf.dim() <= place or not leaf.size(place) for leaf in leaves):
        raise ValueError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0, got the shapes "
            + ", ".join(str(tuple(leaf.shape)) for leaf in leaves)
        )
    return place


def _scan(
    combined: Callable[[list[Tensor], list[Tensor]], list[Tensor]], leaves: list[Tensor]
) -> list[Tensor]:
    """Running results along the first dimension."""
    length = leaves[0].size(0)
    if length < 2:
        return leaves
    # The results at places 1, 3, ... are those of the pairs; each one at 2, 4, ... takes one element more.
    odd = _scan(
        combined, combined([leaf[: length - 1 : 2] for leaf in leaves], [leaf[1::2] for leaf in leaves])
    )
    even = [leaf[:1] for leaf in leaves]
    if length > 2:
        later = combined([one[: (length - 1) // 2] for one in odd], [leaf[2::2] for leaf in leaves])
        even = [_ops.cat([first, rest]) for first, rest in zip(even, later, strict=True)]
    return [_interleaved(one, other) for one, other in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """One tensor of both by turns; `even` may have one more."""
    pairs = _ops.stack([even[: odd.size(0)], odd], 1).flatten(0, 1)
    return pairs if even.size(0) == odd.size(0) else _ops.cat([pairs, even[-1:]])
