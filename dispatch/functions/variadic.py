"""Variadic functions of tensors, and functions with defaults that no schema can express (`torch.functional`).

Each of them is a Python signature over operators; the root re-exports them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ...runtime.user_frame import levels_to_user
from ..core.tensor_function import numpy_named, overridable
from ..generated import functions as _ops
from ..methods.unique import unique as _unique
from ..methods.unique import unique_consecutive as _unique_consecutive
from ..tensor import Tensor

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "meshgrid",
    "norm",
    "tensordot",
    "unique",
    "unique_consecutive",
]


def _listed(tensors: tuple[Any, ...]) -> Sequence[Tensor]:
    """Return the tensors of a call with several arguments, or with one list."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> Sequence[Tensor]: ...
@overload
def atleast_1d(first: Tensor, second: Tensor, /, *others: Tensor) -> Sequence[Tensor]: ...
@overridable
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
    """Expand tensors to at least one dimension: a number becomes a vector of one element (`torch.atleast_1d`).

    Args:
        *tensors: Tensors of any shape, one by one or as a list.

    Returns:
        A tensor for one argument, a tuple of tensors for several or for a list; views where a dimension is added.

    Example:
        >>> import triten as tt
        >>> tt.atleast_1d(tt.tensor(2.0))
        tensor([2.])
    """
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _ops.atleast_1d(tensors[0])
    return _ops.atleast_1d(_listed(tensors))


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> Sequence[Tensor]: ...
@overload
def atleast_2d(first: Tensor, second: Tensor, /, *others: Tensor) -> Sequence[Tensor]: ...
@overridable
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
    """Expand tensors to at least two dimensions: vectors become rows (`torch.atleast_2d`).

    Args:
        *tensors: Tensors of any shape, one by one or as a list.

    Returns:
        A tensor for one argument, a tuple of tensors for several or for a list; views where a dimension is added.

    Example:
        >>> import triten as tt
        >>> tt.atleast_2d(tt.ones(2))
        tensor([[1., 1.]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _ops.atleast_2d(tensors[0])
    return _ops.atleast_2d(_listed(tensors))


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> Sequence[Tensor]: ...
@overload
def atleast_3d(first: Tensor, second: Tensor, /, *others: Tensor) -> Sequence[Tensor]: ...
@overridable
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
    """Expand tensors to at least three dimensions (`torch.atleast_3d`).

    A vector (n,) becomes (1, n, 1), a matrix (m, n, 1).

    Args:
        *tensors: Tensors of any shape, one by one or as a list.

    Returns:
        A tensor for one argument, a tuple of tensors for several or for a list; views where a dimension is added.

    Example:
        >>> import triten as tt
        >>> tt.atleast_3d(tt.ones(2)).shape
        triten.Size([1, 2, 1])
    """
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _ops.atleast_3d(tensors[0])
    return _ops.atleast_3d(_listed(tensors))


@overridable
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Build a block-diagonal matrix, with zeros elsewhere (`torch.block_diag`).

    Args:
        *tensors: Tensors of at most two dimensions on one device, one by one or as a list; vectors count as rows.

    Returns:
        A matrix with the sums of their rows and of their columns, of the dtype to which theirs promote.

    Raises:
        RuntimeError: A tensor has more dimensions, or they are on several devices.

    Example:
        >>> import triten as tt
        >>> tt.block_diag(tt.ones(1, 2), tt.tensor(3.0))
        tensor([[1., 1., 0.],
                [0., 0., 3.]])
    """
    return _ops.block_diag(_listed(tensors))


@overridable
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """Expand tensors to their broadcast shape (`torch.broadcast_tensors`).

    Args:
        *tensors: Tensors whose shapes broadcast with each other, one by one or as a list.

    Returns:
        A tuple of views, all of one shape.

    Raises:
        RuntimeError: The shapes do not broadcast.

    Example:
        >>> import triten as tt
        >>> [x.shape for x in tt.broadcast_tensors(tt.ones(2, 1), tt.ones(3))]
        [triten.Size([2, 3]), triten.Size([2, 3])]
    """
    return _ops.broadcast_tensors(_listed(tensors))


@overridable
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the Cartesian product of vectors, one combination per row (`torch.cartesian_prod`).

    Args:
        *tensors: Vectors of one dtype, one by one or as a list.

    Returns:
        A matrix with a column for each vector, whose first changes slowest; of one vector the vector itself.

    Raises:
        RuntimeError: A tensor has another number of dimensions than one, or the dtypes differ.

    Example:
        >>> import triten as tt
        >>> tt.cartesian_prod(tt.arange(2), tt.arange(2)).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return _ops.cartesian_prod(_listed(tensors))


@overridable
def chain_matmul(*matrices: Tensor | Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Multiply a chain of matrices in the order with the fewest operations (`torch.chain_matmul`);
    `tt.linalg.multi_dot` is newer.

    Args:
        *matrices: Matrices of fitting sizes, one by one or as a list.
        out: The tensor that takes the result and is returned.

    Returns:
        A matrix with the first one's rows and the last one's columns.

    Raises:
        RuntimeError: The sizes of neighbours do not fit.

    Example:
        >>> import triten as tt
        >>> tt.chain_matmul(tt.ones(2, 3), tt.ones(3, 1), tt.ones(1, 2)).tolist()
        [[3.0, 3.0], [3.0, 3.0]]
    """
    return (
        _ops.chain_matmul(_listed(matrices), out=out)
        if out is not None
        else _ops.chain_matmul(_listed(matrices))
    )


@overload
def einsum(equation: str, operands: Sequence[Tensor], /) -> Tensor: ...
@overload
def einsum(equation: str, /, *operands: Tensor) -> Tensor: ...
@overload
def einsum(operand: Tensor, labels: Sequence[Any], /, *others: Tensor | Sequence[Any]) -> Tensor: ...
@overridable
def einsum(*args: Any) -> Tensor:
    """Compute sums of products over dimensions named by letters (`torch.einsum`).

    Args:
        *args: An equation such as ``"bij,bjk->bik"`` and its operands, one by one or as a list; or operands and lists
            of numbers below 52 in turn, the output's last. Letters that the output omits are summed over.

    Returns:
        A tensor with the output's dimensions; without ``->``, those are the letters that occur once, in alphabetical
        order.

    Raises:
        RuntimeError: The equation is malformed, or sizes of one letter differ.
        ValueError: No operand is given, or a number is not below 52.

    Example:
        >>> import triten as tt
        >>> tt.einsum("ij,j->i", tt.ones(2, 3), tt.arange(3.0))
        tensor([3., 3.])
        >>> tt.einsum(tt.ones(2, 3), [0, 1], [1, 0]).shape
        triten.Size([3, 2])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        operands: Sequence[Tensor]
        equation, operands = _from_sublists(args)
    else:
        equation = args[0]
        operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if len(operands) > 2:
        from .einsum_path import einsum_path

        return _ops.einsum(equation, operands, path=einsum_path(equation, operands))
    return _ops.einsum(equation, operands)


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    """Return the equation for operands given with lists of numbers."""

    def text(labels: Sequence[Any]) -> str:
        out = ""
        for label in labels:
            if label is Ellipsis:
                out += "..."
            elif 0 <= label < 26:
                out += chr(ord("A") + label)
            elif 26 <= label < 52:
                out += chr(ord("a") + label - 26)
            else:
                raise ValueError(
                    "einsum(): subscript in subscript list is not within the valid range [0, 52), got "
                    f"{label!r}"
                )
        return out

    pairs = len(args) // 2
    equation = ",".join(text(args[2 * i + 1]) for i in range(pairs))
    if len(args) % 2:
        equation += "->" + text(args[-1])
    return equation, tuple(args[2 * i] for i in range(pairs))


@overridable
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> Sequence[Tensor]:
    """Return the coordinates of a grid, a tensor for each dimension (`torch.meshgrid`).

    Args:
        *tensors: Vectors or numbers of one dtype, one by one or as a list: the coordinates along each dimension.
        indexing: ``"ij"`` for matrix indexing; ``"xy"`` for Cartesian indexing, with the first two dimensions swapped.
            Default: ``"ij"``, with a warning.

    Returns:
        A tuple of views of the grid's shape, as many as there are arguments.

    Raises:
        RuntimeError: A tensor has more than one dimension, the dtypes differ, or `indexing` is another string.

    Example:
        >>> import triten as tt
        >>> x, y = tt.meshgrid(tt.arange(2), tt.arange(3), indexing="ij")
        >>> y.tolist()
        [[0, 1, 2], [0, 1, 2]]
    """
    if indexing is None:
        warnings.warn(
            "meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            stacklevel=levels_to_user(),
        )
        indexing = "ij"
    return _ops.meshgrid(_listed(tensors), indexing=indexing)


_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


@overridable
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """Return the pairwise distances between the rows of two batches of matrices (`torch.cdist`).

    Args:
        x1: A tensor of shape (..., P, M), of a floating dtype.
        x2: A tensor of shape (..., R, M), whose batch dimensions broadcast with those of `x1`.
        p: The order of the norm, at least 0; 0 counts differing elements.
        compute_mode: Selects matmuls for Euclidean distances, which are faster and less exact:
            ``"use_mm_for_euclid_dist_if_necessary"`` for more than 25 rows, ``"use_mm_for_euclid_dist"`` or
            ``"donot_use_mm_for_euclid_dist"``.

    Returns:
        A tensor of shape (..., P, R).

    Raises:
        ValueError: `compute_mode` is another string.
        RuntimeError: The rows' lengths differ, the dtype is not floating-point, or `p` is negative.

    Example:
        >>> import triten as tt
        >>> tt.cdist(tt.zeros(1, 2), tt.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _ops.cdist(x1, x2, p, _MODES[compute_mode])


@overridable
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: ScalarType | None = None,
) -> Tensor:
    """Return a vector norm, or with ``p="fro"`` the Frobenius norm (`torch.norm`; `tt.linalg.vector_norm` is newer).

    Args:
        input: A floating or complex tensor.
        p: The order; ``"fro"`` and None are 2, ``"nuc"`` is the sum of a matrix's singular values.
        dim: The dimension or dimensions to reduce; all of them where it is None.
        keepdim: If True, keep the reduced dimensions with size 1.
        out: The tensor that takes the result and is returned.
        dtype: The dtype to which `input` is converted first; by default its own.

    Returns:
        A tensor of the real dtype that belongs to the dtype computed in.

    Raises:
        RuntimeError: The dtype is neither floating nor complex.

    Example:
        >>> import triten as tt
        >>> tt.norm(tt.tensor([3.0, 4.0]))
        tensor(5.)
    """
    from ..composite.norm import old_norm

    return old_norm(input, p, dim, keepdim, out, dtype)


@overridable
def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Tensor | Sequence[Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Contract dimensions of two tensors: multiply and sum over them (`torch.tensordot`).

    Args:
        a: A tensor.
        b: A tensor of the same dtype.
        dims: Number of last dimensions of `a` and first dimensions of `b` to contract, or two lists of dimensions.
            NumPy's name ``axes`` is also accepted.
        out: The tensor that takes the result and is returned.

    Returns:
        A tensor with the dimensions of `a` that are left, then those of `b`.

    Raises:
        RuntimeError: The sizes of contracted dimensions differ, or the dtypes do.

    Example:
        >>> import triten as tt
        >>> tt.tensordot(tt.ones(2, 3), tt.ones(3, 4), dims=1).shape
        triten.Size([2, 4])
    """
    if not isinstance(dims, tuple | list | Tensor | int):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    if isinstance(dims, Tensor):
        if dims.numel() > 1 and dims.shape[0] != 2:
            raise AssertionError(f"dims tensor must have size 2 in first dimension, got {dims.shape[0]}")
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}, dims_a: {a.dim()}, dims_b: {b.dim()}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = dims
    if out is not None:
        return _ops.tensordot(a, b, left, right, out=out)
    return _ops.tensordot(a, b, left, right)


numpy_named(tensordot, axes="dims")


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
@overridable
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the unique elements of a tensor, or entries along `dim`, in ascending order (`torch.unique`).

    Args:
        input: A tensor of any sizes, of a dtype that has an order. NaN equals nothing, and each NaN is unique.
        sorted: Ignored: the result is always sorted.
        return_inverse: If True, also return the index of each element, or entry, among the unique ones.
        return_counts: If True, also return the number of occurrences.
        dim: If given, compare entries along it, lexicographically.

    Returns:
        A tensor, or a tuple of it and the requested int64 tensors.

    Raises NotImplementedError for complex numbers, and on the Meta device, where the number of elements is not known;
    RuntimeError for entries without elements.

    Example:
        >>> import triten as tt
        >>> tt.unique(tt.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
        (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    return _unique(input, sorted, return_inverse, return_counts, dim)


@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, ...]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, *, return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, ...]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]: ...
@overridable
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return one element, or entry along `dim`, of each run of equal ones (`torch.unique_consecutive`).

    Args:
        input: A tensor of any shape and dtype. NaN equals nothing.
        return_inverse: If True, also return the index of the run of each element, or entry.
        return_counts: If True, also return the length of each run.
        dim: A dimension whose entries are compared. Default: None, compare the elements of the flattened tensor.

    Returns:
        A tensor, or a tuple of it and the requested int64 tensors.

    Raises:
        NotImplementedError: `input` is on the Meta device.

    Example:
        >>> import triten as tt
        >>> tt.unique_consecutive(tt.tensor([1, 1, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    return _unique_consecutive(input, return_inverse, return_counts, dim)
