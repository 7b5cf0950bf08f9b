"""Functions over any number of tensors, or with defaults that no schema can say (`torch.functional`).

Each of them is a Python signature over operators; the root re-exports them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from .dispatch.core.tensor_function import overridable
from .dispatch.generated import functions as _ops
from .dispatch.tensor import Tensor
from .dispatch.unique_methods import unique as _unique
from .dispatch.unique_methods import unique_consecutive as _unique_consecutive

if TYPE_CHECKING:
    from .runtime.scalar_type import dtype as ScalarType

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
    """The tensors of a call with several arguments, or with a list of them."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> Sequence[Tensor]: ...
@overload
def atleast_1d(first: Tensor, second: Tensor, /, *others: Tensor) -> Sequence[Tensor]: ...
@overridable
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
    """Tensors of no dimension get one; a tensor for one argument, a tuple for several (`torch.atleast_1d`).

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
    """Vectors become rows; a tensor for one argument, a tuple for several (`torch.atleast_2d`).

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
    """A vector of n becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1) (`torch.atleast_3d`).

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
    """Matrices along the diagonal of one matrix, zeros elsewhere (`torch.block_diag`).

    Args:
        tensors: of at most two dimensions, vectors being rows, on one device.

    Raises RuntimeError for more dimensions or several devices.

    Example:
        >>> import triten as tt
        >>> tt.block_diag(tt.ones(1, 2), tt.tensor(3.0))
        tensor([[1., 1., 0.],
                [0., 0., 3.]])
    """
    return _ops.block_diag(_listed(tensors))


@overridable
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The tensors expanded to their common shape, as views (`torch.broadcast_tensors`).

    Example:
        >>> import triten as tt
        >>> [x.shape for x in tt.broadcast_tensors(tt.ones(2, 1), tt.ones(3))]
        [triten.Size([2, 3]), triten.Size([2, 3])]
    """
    return _ops.broadcast_tensors(_listed(tensors))


@overridable
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Every choice of an element of each vector, a row for each (`torch.cartesian_prod`).

    Example:
        >>> import triten as tt
        >>> tt.cartesian_prod(tt.arange(2), tt.arange(2)).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return _ops.cartesian_prod(_listed(tensors))


@overridable
def chain_matmul(*matrices: Tensor | Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """The product of matrices in the cheapest order (`torch.chain_matmul`).

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
    """Sums of products, dimensions named by letters (`torch.einsum`).

    Args:
        args: an equation such as ``"bij,bjk->bik"`` and its operands, one by one or as a list; or operands and lists
            of numbers below 52 in turn, the output's last.

    Raises RuntimeError for a malformed equation and for sizes that do not fit.

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
        return _ops.einsum(*_from_sublists(args))
    operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    return _ops.einsum(args[0], operands)


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    """The equation of operands with lists of numbers."""

    def text(labels: Sequence[object]) -> str:
        out = ""
        for label in labels:
            if label is Ellipsis:
                out += "..."
            elif isinstance(label, int) and 0 <= label < 26:
                out += chr(ord("A") + label)
            elif isinstance(label, int) and 26 <= label < 52:
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
    """Coordinates of a grid, a tensor for each dimension (`torch.meshgrid`).

    Args:
        tensors: vectors of one dtype.
        indexing: ``"ij"`` for matrices' order, ``"xy"`` for pictures'.

    Raises RuntimeError for tensors of more than one dimension or of several dtypes.

    Example:
        >>> import triten as tt
        >>> x, y = tt.meshgrid(tt.arange(2), tt.arange(3), indexing="ij")
        >>> y.tolist()
        [[0, 1, 2], [0, 1, 2]]
    """
    if indexing is None:
        warnings.warn(
            "meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            stacklevel=3,
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
    """The distance of each row of `x1` (..., P, M) from each of `x2` (..., R, M): (..., P, R) (`torch.cdist`).

    Args:
        p: the order of the norm, at least 0; 0 counts differing elements.
        compute_mode: whether Euclidean distances are made of products of matrices, which is quicker and less exact:
            ``"use_mm_for_euclid_dist_if_necessary"`` for more than 25 rows, ``"use_mm_for_euclid_dist"`` or
            ``"donot_use_mm_for_euclid_dist"``.

    Raises ValueError for another mode, RuntimeError for rows of different lengths, integers and a negative `p`.

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
    """A vector norm, or with ``p="fro"`` the Frobenius norm (`torch.norm`).

    Args:
        input: a floating or complex tensor.
        p: the order; ``"fro"`` and None are 2.
        dim: the dimensions to reduce; all of them where it is None.
        dtype: converted to before the operation.

    Raises RuntimeError for integers.

    Example:
        >>> import triten as tt
        >>> tt.norm(tt.tensor([3.0, 4.0]))
        tensor(5.)
    """
    from .dispatch.composite.norm import old_norm

    return old_norm(input, p, dim, keepdim, out, dtype)


@overridable
def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Tensor | Sequence[int | Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Tensor:
    """The sum of products over dimensions of both (`torch.tensordot`).

    Args:
        a, b: tensors of one dtype.
        dims: how many of the last of `a` and the first of `b`; or two lists of dimensions.

    Raises RuntimeError for sizes that do not fit.

    Example:
        >>> import triten as tt
        >>> tt.tensordot(tt.ones(2, 3), tt.ones(3, 4), dims=1).shape
        triten.Size([2, 4])
    """
    left: Any
    right: Any
    if isinstance(dims, Tensor):
        dims = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}, dims_a: {a.dim()}, dims_b: {b.dim()}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = (list(d) if isinstance(d, list | tuple) else [d] for d in dims)
    if out is not None:
        return _ops.tensordot(a, b, left, right, out=out)
    return _ops.tensordot(a, b, left, right)


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
    """The different elements of a tensor, or entries along `dim`, in ascending order (`torch.unique`).

    Args:
        input: of any sizes and of a dtype that has an order. NaN equals nothing, and each NaN is unique.
        sorted: without effect: they are sorted in any case.
        return_inverse: whether to say for each element, or entry, where it is among the different ones.
        return_counts: whether to say how often each of them occurs.
        dim: entries along it are compared as words are, element by element.

    Returns:
        A tensor, or a tuple of it and what is asked for, as int64.

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
    """One element of each run of equal ones, or entry along `dim` (`torch.unique_consecutive`).

    Arguments, results and errors are those of `unique`.

    Example:
        >>> import triten as tt
        >>> tt.unique_consecutive(tt.tensor([1, 1, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    return _unique_consecutive(input, return_inverse, return_counts, dim)
