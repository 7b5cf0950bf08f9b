"""Sums, softmax and products of sparse tensors (torch/sparse/__init__.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..dispatch.core.op_overload import find_overload
from ..dispatch.generated import functions as _ops
from ..runtime.layout import sparse_coo, sparse_csr, spoken, strided
from ..runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor
    from ..runtime.layout import layout as Layout
    from ..runtime.scalar_type import Number
    from ..runtime.scalar_type import dtype as ScalarType


@api_boundary
def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: ScalarType | None = None) -> Tensor:
    """Sum a sparse tensor, with a sparse gradient (`torch.sparse.sum`).

    Args:
        input: A tensor of layout `tt.sparse_coo`.
        dim: The dimensions that are summed; by default all.
        dtype: The dtype to which `input` is converted first; integers are not promoted without it.

    Returns:
        A sparse and coalesced tensor, or a strided one where all sparse dimensions were summed.

    Raises:
        RuntimeError: `input` has another layout, or a dimension is named twice.
        IndexError: A dimension is not there.

    Example:
        >>> import triten as tt
        >>> tt.sparse.sum(tt.tensor([[0.0, 2.0], [0.0, 3.0]]).to_sparse(), 0)
        tensor(indices=tensor([[1]]),
               values=tensor([5.]),
               size=(2,), nnz=1, layout=triten.sparse_coo)
    """
    if input.layout is not sparse_coo:
        # PyTorch has no kernel for compressed layouts, and a message of its own for strided tensors.
        error = RuntimeError if input.layout is strided else NotImplementedError
        raise error(f"sparse.sum: expected sparse coordinate tensor layout but got {spoken(input.layout)}")
    if dtype is not None:
        input = input.to(dtype)
    if dim is None:
        return _ops._sparse_sum(input)
    return _ops._sparse_sum(input, (dim,) if isinstance(dim, int) else tuple(dim))


@api_boundary
def softmax(input: Tensor, dim: int, *, dtype: ScalarType | None = None) -> Tensor:
    """Compute the softmax over the specified elements along a dimension (`torch.sparse.softmax`).

    Args:
        input: A tensor of layout `tt.sparse_coo`.
        dim: The dimension.
        dtype: The dtype to which `input` is converted first.

    Returns:
        A coalesced sparse tensor with `input`'s places: what is not specified counts as -inf.

    Raises:
        NotImplementedError: `input` has another layout or holds integers.

    Example:
        >>> import triten as tt
        >>> tt.sparse.softmax(tt.tensor([[0.0, 2.0], [1.0, 2.0]]).to_sparse(), 0).to_dense()
        tensor([[0.0000, 0.5000],
                [1.0000, 0.5000]])
    """
    return find_overload("aten::_sparse_softmax.int")(input, dim, dtype)  # type: ignore[no-any-return]


@api_boundary
def log_softmax(input: Tensor, dim: int, *, dtype: ScalarType | None = None) -> Tensor:
    """Compute the logarithm of `softmax` (`torch.sparse.log_softmax`).

    Args:
        input: A tensor of layout `tt.sparse_coo`.
        dim: The dimension.
        dtype: The dtype to which `input` is converted first.

    Returns:
        A coalesced sparse tensor with `input`'s places.

    Raises:
        NotImplementedError: `input` has another layout or holds integers.

    Example:
        >>> import triten as tt
        >>> tt.sparse.log_softmax(tt.tensor([[1.0, 2.0]]).to_sparse(), 1).values()
        tensor([-1.3133, -0.3133])
    """
    return find_overload("aten::_sparse_log_softmax.int")(input, dim, dtype)  # type: ignore[no-any-return]


@api_boundary
def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Multiply a sparse matrix by another matrix, with a sparse gradient (`torch.sparse.mm`).

    Args:
        mat1: A sparse matrix, (n, m).
        mat2: A sparse or strided matrix, (m, p).
        reduce: For a matrix of compressed rows and a strided one, how the products of a row are put together: "sum",
            "mean", "amax" or "amin".

    Returns:
        An (n, p) matrix: strided if `mat2` is, else sparse.

    Raises:
        RuntimeError: The shapes do not fit each other.

    Example:
        >>> import triten as tt
        >>> tt.sparse.mm(tt.tensor([[0.0, 2.0]]).to_sparse(), tt.ones(2, 2))
        tensor([[2., 2.]])
    """
    if reduce is None:
        return find_overload("aten::_sparse_mm")(mat1, mat2)  # type: ignore[no-any-return]
    return find_overload("aten::_sparse_mm.reduce")(mat1, mat2, reduce)  # type: ignore[no-any-return]


@api_boundary
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Compute ``beta * mat + alpha * (mat1 @ mat2)``; the sparse matrix has a sparse gradient (`torch.sparse.addmm`).

    Args:
        mat: A strided matrix, (n, p).
        mat1: A sparse matrix, (n, m).
        mat2: A strided matrix, (m, p).
        beta: The factor of `mat`.
        alpha: The factor of the matmul.

    Returns:
        A strided (n, p) matrix.

    Raises:
        RuntimeError: The shapes do not fit each other.

    Example:
        >>> import triten as tt
        >>> tt.sparse.addmm(tt.ones(1, 2), tt.tensor([[0.0, 2.0]]).to_sparse(), tt.ones(2, 2))
        tensor([[3., 3.]])
    """
    return find_overload("aten::_sparse_addmm")(mat, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[no-any-return]


@api_boundary
def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1.0,
    alpha: Number = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """Compute a matmul only at the specified elements of a sparse matrix (`torch.sparse.sampled_addmm`).

    Args:
        input: A matrix of layout `tt.sparse_csr`, (n, p), or a batch of them.
        mat1: A strided matrix, (n, m).
        mat2: A strided matrix, (m, p).
        beta: The factor of `input`.
        alpha: The factor of the matmul.
        out: The output tensor. Default: a new tensor.

    Returns:
        A matrix of `input`'s layout and places.

    Raises:
        RuntimeError: The shapes, layouts or dtypes do not fit.

    Example:
        >>> import triten as tt
        >>> tt.sparse.sampled_addmm(tt.eye(2).to_sparse_csr(), tt.ones(2, 3), tt.ones(3, 2)).values()
        tensor([4., 4.])
    """
    if out is not None:
        return find_overload("aten::sparse_sampled_addmm.out")(  # type: ignore[no-any-return]
            input, mat1, mat2, beta=beta, alpha=alpha, out=out
        )
    return find_overload("aten::sparse_sampled_addmm")(input, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[no-any-return]


@api_boundary
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Layout | None = None) -> Tensor:
    """Build a sparse matrix from its diagonals (`torch.sparse.spdiags`).

    Args:
        diagonals: A matrix with a diagonal in each row, or one diagonal. Its element in column j stands in column j of
            the result.
        offsets: int64: where each diagonal lies, 0 for the main one, positive above it. Each of them is there once.
        shape: The result's two sizes.
        layout: `tt.sparse_coo`, the default, `tt.sparse_csr` or `tt.sparse_csc`.

    Returns:
        A sparse matrix.

    Raises:
        RuntimeError: Sizes or offsets do not fit, or the layout is another one.

    Example:
        >>> import triten as tt
        >>> tt.sparse.spdiags(tt.tensor([[1.0, 2.0], [3.0, 4.0]]), tt.tensor([0, -1]), (2, 2)).to_dense()
        tensor([[1., 0.],
                [3., 2.]])
    """
    return find_overload("aten::_spdiags")(diagonals, offsets, tuple(shape), layout)  # type: ignore[no-any-return]


@api_boundary
def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Solve a linear system with a sparse matrix (`torch.sparse.spsolve`).

    SciPy's SuperLU solves it on the CPU, cuSOLVER through CuPy on CUDA.

    Args:
        input: A square matrix of layout `tt.sparse_csr`.
        other: A strided vector, the right-hand side.
        left: If True, the matrix is on the left; False is not supported. Default: True.

    Returns:
        A strided vector.

    Raises:
        RuntimeError: The matrix is not square or of another layout, or is singular.

    Example:
        >>> import triten as tt
        >>> tt.sparse.spsolve(tt.tensor([[2.0, 0.0], [1.0, 4.0]]).to_sparse_csr(), tt.tensor([2.0, 5.0]))
        tensor([1., 1.])
    """
    if input.layout is not sparse_csr or other.layout is not strided:
        raise RuntimeError(
            f"spsolve: expected a sparse CSR matrix and a strided vector, got {input.layout} and {other.layout}"
        )
    if input.ndim != 2 or input.shape[0] != input.shape[1] or other.ndim != 1:
        raise RuntimeError(
            f"spsolve: expected a square matrix and a vector, got {list(input.shape)} and {list(other.shape)}"
        )
    if input.shape[0] != other.shape[0]:
        raise RuntimeError(
            f"spsolve: the matrix has {input.shape[0]} rows and the right-hand side {other.shape[0]} elements"
        )
    if not left:
        raise RuntimeError("spsolve: only left=True is supported")
    from .interchange import solved

    return solved(input, other)


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Extend `gradcheck` to sparse inputs (`torch.sparse.as_sparse_gradcheck`).

    The check compares gradients with respect to each sparse input's values, and rebuilds the input before each call.
    Sparse results are converted to dense.

    Args:
        gradcheck: A function as `tt.autograd.gradcheck`.

    Returns:
        A function with the same arguments, and `masked`: whether only the specified elements vary, as they do here.

    Example:
        >>> import triten as tt
        >>> check = tt.sparse.as_sparse_gradcheck(tt.autograd.gradcheck)
        >>> x = tt.eye(2, dtype=tt.float64).to_sparse().requires_grad_()
        >>> check(lambda x: x * 3.0, (x,), masked=True)
        True
    """

    def checked(func: Callable[..., Any], inputs: Any, *, masked: bool = False, **named: Any) -> bool:
        input_list = inputs if isinstance(inputs, list | tuple) else (inputs,)
        flat = [_values_of(each) if _is_sparse_leaf(each) else each for each in input_list]

        def dense(*values: Any) -> Any:
            whole = [
                _like(each, value) if _is_sparse_leaf(each) else value
                for each, value in zip(input_list, values, strict=True)
            ]
            out = func(*whole)
            if isinstance(out, list | tuple):
                return tuple(_dense(each) for each in out)
            return _dense(out)

        return gradcheck(dense, tuple(flat), **named)

    return checked


def _is_sparse_leaf(value: Any) -> bool:
    return getattr(value, "layout", strided) is not strided and bool(value.requires_grad)


def _values_of(tensor: Any) -> Any:
    return (
        (tensor._values() if tensor.layout is sparse_coo else tensor.values())
        .detach()
        .clone()
        ._set_requires_grad()
    )


def _like(tensor: Any, values: Any) -> Any:
    bare = tensor.detach()
    if tensor.layout is sparse_coo:
        return _ops._sparse_coo_tensor_unsafe(
            bare._indices(), values, tensor.shape, is_coalesced=bare.is_coalesced()
        )
    return find_overload("aten::_sparse_compressed_tensor_unsafe")(
        bare._data.compressed, bare._data.plain, values, tensor.shape, layout=tensor.layout
    )


def _dense(out: Any) -> Any:
    return out.to_dense() if getattr(out, "layout", strided) is not strided else out
