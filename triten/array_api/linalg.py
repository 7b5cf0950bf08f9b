"""Linear algebra of the standard (its extension `linalg`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..dispatch.generated import functions
from ..runtime.scalar_type import dtype as ScalarType
from . import statistical_functions
from .axes import reduced
from .linear_algebra_functions import matmul, matrix_transpose, tensordot, vecdot
from .manipulation_functions import broadcast_arrays, broadcast_shapes
from .promotion import common_operands, promoted_tensors

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Compute the Cholesky factor of positive definite matrices.

    Args:
        x: Square matrices of a floating-point dtype.
        upper: If True, return the upper triangular factor.

    Returns:
        An array of `x`'s shape and dtype.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.cholesky.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.cholesky(xp.asarray([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    return functions.linalg_cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Compute the cross product of vectors of three elements.

    Args:
        x1: An array of size 3 along `axis`.
        x2: Another one; other axes broadcast.
        axis: The axis.

    Returns:
        An array of the broadcast shape.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.cross.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
        tensor([0, 0, 1])
    """
    x1, x2 = common_operands(x1, x2)
    if x1.ndim != x2.ndim:
        x1, x2 = broadcast_arrays(x1, x2)
    return functions.linalg_cross(x1, x2, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Compute the determinants of matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        An array without the last two axes.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.det.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.det(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor(16.)
    """
    return functions.linalg_det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices, as a view.

    Args:
        x: An array of at least two dimensions.
        offset: Diagonal to return: 0 is the main diagonal, positive ones are above it.

    Returns:
        A view, without the last two axes and with one of the diagonal's length.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.diagonal.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.diagonal(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([2., 8.])
    """
    return functions.diagonal(x, offset, -2, -1)


def eig(x: Tensor, /) -> Any:
    """Compute the eigenvalues and eigenvectors of matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        A named tuple: complex `eigenvalues` and `eigenvectors`, the columns.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.eig.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.eig(xp.asarray([[2.0, 0.0], [0.0, 8.0]])).eigenvalues
        tensor([2.+0.j, 8.+0.j])
    """
    return functions.linalg_eig(x)


def eigh(x: Tensor, /) -> Any:
    """Compute the eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        A named tuple: real `eigenvalues`, ascending, and `eigenvectors`, the columns.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.eigh.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.eigh(xp.asarray([[2.0, 0.0], [0.0, 8.0]])).eigenvalues
        tensor([2., 8.])
    """
    return functions.linalg_eigh(x)


def eigvals(x: Tensor, /) -> Tensor:
    """Compute the eigenvalues of matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        A complex array.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.eigvals.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.eigvals(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([2.+0.j, 8.+0.j])
    """
    return functions.linalg_eigvals(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Compute the eigenvalues of symmetric or Hermitian matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        A real array, ascending along the last axis.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.eigvalsh.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.eigvalsh(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([2., 8.])
    """
    return functions.linalg_eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Compute the inverses of matrices.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        An array of `x`'s shape and dtype.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.inv.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.inv(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.1250]])
    """
    return functions.linalg_inv(x)


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """Compute the norms of matrices.

    Args:
        x: An array of at least two dimensions, of a floating-point dtype.
        keepdims: If True, keep the last two axes with size 1.
        ord: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, inf or -inf; None is ``"fro"``.

    Returns:
        A real array.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.matrix_norm.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.matrix_norm(xp.asarray([[3.0, 0.0], [0.0, 4.0]]))
        tensor(5.)
    """
    return functions.linalg_matrix_norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Raise matrices to an integer power.

    Args:
        x: Square matrices of a floating-point dtype.
        n: Exponent; a negative one inverts.

    Returns:
        An array of `x`'s shape and dtype.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.matrix_power.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.matrix_power(xp.asarray([[2.0, 0.0], [0.0, 8.0]]), 2)
        tensor([[ 4.,  0.],
                [ 0., 64.]])
    """
    return functions.linalg_matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Compute the ranks of matrices: the number of singular values above the tolerance.

    Args:
        x: Matrices of a floating-point dtype.
        rtol: The greatest negligible value, relative to the greatest one; by default the
            larger size times the dtype's `eps`.

    Returns:
        An array of int64.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.matrix_rank.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.matrix_rank(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor(2)
    """
    return functions.linalg_matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Compute the outer product of two vectors.

    Args:
        x1: A vector.
        x2: Another one.

    Returns:
        A matrix.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.outer.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    return promoted_tensors(functions.outer, x1, x2)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Compute the Moore-Penrose pseudo-inverses of matrices.

    Args:
        x: Matrices of a floating-point dtype.
        rtol: Relative tolerance below which singular values count as zero, as in `matrix_rank`.

    Returns:
        An array with the last two sizes swapped.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.pinv.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.pinv(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.1250]])
    """
    return functions.linalg_pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """Compute the QR decomposition of matrices.

    Args:
        x: Matrices of a floating-point dtype.
        mode: ``"reduced"`` for as many columns of `Q` as needed, ``"complete"`` for a square `Q`.

    Returns:
        A named tuple: `Q` and `R`.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.qr.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.qr(xp.asarray([[2.0, 0.0], [0.0, 8.0]])).R.shape
        triten.Size([2, 2])
    """
    return functions.linalg_qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """Compute the signs of determinants, and the logarithms of their magnitudes.

    Args:
        x: Square matrices of a floating-point dtype.

    Returns:
        A named tuple: `sign` and `logabsdet`.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.slogdet.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.slogdet(xp.asarray([[2.0, 0.0], [0.0, 8.0]])).logabsdet
        tensor(2.7726)
    """
    return functions.linalg_slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Solve systems of linear equations.

    Args:
        x1: Square matrices of a floating-point dtype.
        x2: Right-hand sides: a vector, or matrices whose other axes broadcast.

    Returns:
        An array of the dtype to which theirs promote.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.solve.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.solve(xp.asarray([[2.0, 0.0], [0.0, 8.0]]), xp.asarray([2.0, 4.0]))
        tensor([1.0000, 0.5000])
    """
    x1, x2 = common_operands(x1, x2)
    # PyTorch's operator takes a stack of right sides for vectors if the shapes allow both: they are made matrices.
    sides = x2.unsqueeze(-1) if x2.ndim == 1 else x2
    batch = broadcast_shapes(tuple(x1.shape[:-2]), tuple(sides.shape[:-2]))
    solved = functions.linalg_solve(
        x1.expand((*batch, *x1.shape[-2:])), sides.expand((*batch, *sides.shape[-2:]))
    )
    return solved.squeeze(-1) if x2.ndim == 1 else solved


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Compute the singular value decomposition of matrices.

    Args:
        x: Matrices of a floating-point dtype.
        full_matrices: If True, return square `U` and `Vh`.

    Returns:
        A named tuple: `U`, `S`, descending, and `Vh`.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.svd.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.svd(xp.asarray([[2.0, 0.0], [0.0, 8.0]])).S
        tensor([8., 2.])
    """
    return functions.linalg_svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Compute the singular values of matrices.

    Args:
        x: Matrices of a floating-point dtype.

    Returns:
        A real array, descending along the last axis.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.svdvals.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.svdvals(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor([8., 2.])
    """
    return functions.linalg_svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: ScalarType | None = None) -> Tensor:
    """Sum the diagonals of matrices.

    Args:
        x: An array of at least two dimensions.
        offset: Diagonal to sum, as in `diagonal`.
        dtype: Dtype of the sums. Default: as in `sum`.

    Returns:
        An array without the last two axes.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.trace.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.trace(xp.asarray([[2.0, 0.0], [0.0, 8.0]]))
        tensor(10.)
    """
    return statistical_functions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Compute the norms of vectors.

    Args:
        x: An array of a floating-point dtype.
        axis: Axes of the vectors. Default: the flattened array is one vector.
        keepdims: If True, keep the reduced axes with size 1.
        ord: Order p: the p-th root of the sum of p-th powers; inf and -inf give maximum and minimum, 0 counts.

    Returns:
        A real array.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.linalg.vector_norm.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0]))
        tensor(5.)
    """
    axes = reduced(axis, x.ndim)
    if not axes:
        # The norm of a number: its magnitude; of order 0, whether it is not 0.
        size = functions.abs(x)
        return size if ord else size.ne(0).to(size.dtype)
    return functions.linalg_vector_norm(x, ord, axes, keepdims)
