"""Linear algebra of the standard's main namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from .axes import normalized
from .promotion import common_operands, promoted_tensors

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Multiply matrices, or batches of matrices.

    Args:
        x1: An array of at least one dimension; a vector is a row.
        x2: Another one; a vector is a column.

    Returns:
        An array of the dtype to which theirs promote.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.matmul.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.matmul(xp.asarray([[1, 2]]), xp.asarray([[3], [4]]))
        tensor([[11]])
    """
    return promoted_tensors(functions.matmul, x1, x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Swap the last two axes, as a view.

    Args:
        x: An array of at least two dimensions.

    Returns:
        A view.

    Raises:
        ValueError: `x` has fewer.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.matrix_transpose.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.matrix_transpose(xp.ones((5, 2, 3))).shape
        triten.Size([5, 3, 2])
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): expected at least 2 dimensions, got {x.ndim}")
    return x.transpose(-2, -1)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Contract two arrays over some axes.

    Args:
        x1: An array.
        x2: Another one.
        axes: Number of last axes of `x1` and first axes of `x2` to contract, or the axes of each.

    Returns:
        An array of the axes that are left, of the dtype to which theirs promote.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.tensordot.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.tensordot(xp.asarray([1, 2]), xp.asarray([3, 4]), axes=1)
        tensor(11)
    """
    x1, x2 = common_operands(x1, x2)
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    return functions.tensordot(x1, x2, tuple(axes[0]), tuple(axes[1]))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Compute the dot product along an axis, with the first operand conjugated.

    Args:
        x1: An array.
        x2: Another one, of the same size along `axis`; other axes broadcast.
        axis: The axis, counted from the end.

    Returns:
        An array without that axis, of the dtype to which theirs promote.

    Raises:
        ValueError: The sizes along `axis` differ.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.vecdot.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.vecdot(xp.asarray([1 + 1j]), xp.asarray([1 + 1j]))
        tensor(2.+0.j)
    """
    x1, x2 = common_operands(x1, x2)
    first, second = x1.movedim(normalized(axis, x1.ndim), -1), x2.movedim(normalized(axis, x2.ndim), -1)
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(
            f"vecdot(): expected equal sizes along axis {axis}, got {first.shape[-1]} and {second.shape[-1]}"
        )
    product = functions.conj_physical(first) * second
    return functions.sum(product, (-1,), dtype=product.dtype)
