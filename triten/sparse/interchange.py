"""Conversion between sparse tensors and SciPy's and CuPy's sparse arrays.

Values, and the arrays of compressed rows or columns, share memory. COO indices are copied, because SciPy has one
32-bit or 64-bit array for each dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dispatch.core.op_overload import find_overload
from ..dispatch.functions.sparse import sparse_coo_tensor
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor_data import as_tensor, from_numpy
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ..runtime.scalar_type import int32, int64
from ..runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

_LAYOUTS: dict[str, Layout] = {"csr": sparse_csr, "csc": sparse_csc, "bsr": sparse_bsr}
_FORMATS = {layout: name for name, layout in _LAYOUTS.items()}


@api_boundary
def from_scipy(array: Any) -> Tensor:
    """Convert a SciPy sparse array or matrix to a sparse tensor.

    Args:
        array: An array or matrix of format ``coo``, ``csr``, ``csc`` or ``bsr``; another one is converted to ``coo``.

    Returns:
        A tensor on the CPU of layout `tt.sparse_coo`, `tt.sparse_csr`, `tt.sparse_csc` or `tt.sparse_bsr`. The values
        are shared, and of compressed formats the indices too, if they are sorted and unequal.

    Raises:
        TypeError: `array` is no sparse array of SciPy's, or of a dtype that has no counterpart.

    Example:
        >>> import scipy.sparse, triten as tt
        >>> tt.sparse.from_scipy(scipy.sparse.eye_array(2, format="csr")).to_dense()
        tensor([[1., 0.],
                [0., 1.]], dtype=triten.float64)
    """
    from scipy import sparse

    if not sparse.issparse(array):
        raise TypeError(f"from_scipy: expected a sparse array of SciPy's, got {type(array).__name__}")
    if array.format not in _LAYOUTS:
        import numpy as np

        array = array.tocoo()
        coordinates = np.stack([np.asarray(c, np.int64) for c in array.coords])
        return sparse_coo_tensor(
            from_numpy(coordinates), from_numpy(array.data), array.shape, is_coalesced=False
        )
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    parts = (from_numpy(array.indptr), from_numpy(array.indices), from_numpy(array.data))
    return find_overload("aten::sparse_compressed_tensor.comp_plain_value_size")(  # type: ignore[no-any-return]
        *parts, array.shape, layout=_LAYOUTS[array.format]
    )


@api_boundary
def to_scipy(input: Tensor) -> Any:
    """Convert a sparse tensor to a SciPy sparse array.

    Args:
        input: A tensor on the CPU of layout `tt.sparse_coo` without dense dimensions, or of two dimensions and layout
            `tt.sparse_csr`, `tt.sparse_csc` or `tt.sparse_bsr`.

    Returns:
        A ``coo_array``, ``csr_array``, ``csc_array`` or ``bsr_array`` over the same memory.

    Raises:
        TypeError: The layout, the device or the dimensions are others.
        RuntimeError: `input` requires grad.

    Example:
        >>> import triten as tt
        >>> tt.sparse.to_scipy(tt.eye(2).to_sparse()).toarray()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    from scipy import sparse

    if input.requires_grad:
        raise RuntimeError("to_scipy: the tensor requires grad. Use tensor.detach() first.")
    if input.device.type != "cpu":
        raise TypeError(f"to_scipy: expected a tensor on the CPU, got one on {input.device}")
    if input.layout is sparse_coo:
        if input.dense_dim():
            raise TypeError(f"to_scipy: the tensor has {input.dense_dim()} dense dimensions")
        coordinates = tuple(input._indices().numpy())
        return sparse.coo_array((input._values().numpy(), coordinates), shape=tuple(input.shape))
    return _compressed_to(sparse, "to_scipy", input, lambda part: part.numpy(), "_array")


def _compressed_to(module: Any, name: str, input: Any, convert: Any, suffix: str) -> Any:
    """Convert a compressed tensor to an array of SciPy's or CuPy's module."""
    if input.layout not in _FORMATS or input.ndim != 2:
        raise TypeError(f"{name}: no such array has layout {input.layout} and shape {list(input.shape)}")
    data = input.detach()._data
    make = getattr(module, _FORMATS[input.layout] + suffix)
    return make(
        (convert(data.values), convert(data.plain), convert(data.compressed)), shape=tuple(input.shape)
    )


@api_boundary
def from_cupy(array: Any) -> Tensor:
    """Convert a CuPy sparse matrix to a sparse tensor on its device.

    Args:
        array: A matrix of format ``coo``, ``csr`` or ``csc``.

    Returns:
        A CUDA tensor whose values, and compressed indices, are the matrix's own memory.

    Raises:
        TypeError: `array` is no such matrix.

    Example:
        >>> import cupyx.scipy.sparse, triten as tt  # doctest: +SKIP
        >>> tt.sparse.from_cupy(cupyx.scipy.sparse.eye(2, format="csr"))  # doctest: +SKIP
    """
    form = getattr(array, "format", None)
    if form == "coo":
        indices = _ops.stack([as_tensor(array.row).to(int64), as_tensor(array.col).to(int64)])
        return sparse_coo_tensor(indices, as_tensor(array.data), array.shape, is_coalesced=False)
    if form not in ("csr", "csc"):
        raise TypeError(
            f"from_cupy: expected a sparse matrix of format coo, csr or csc, got {type(array).__name__}"
        )
    array.sum_duplicates()
    return find_overload("aten::sparse_compressed_tensor.comp_plain_value_size")(  # type: ignore[no-any-return]
        as_tensor(array.indptr),
        as_tensor(array.indices),
        as_tensor(array.data),
        array.shape,
        layout=_LAYOUTS[form],
    )


@api_boundary
def to_cupy(input: Tensor) -> Any:
    """Convert a sparse CUDA tensor to a CuPy sparse matrix.

    Args:
        input: A CUDA matrix of layout `tt.sparse_coo`, `tt.sparse_csr` or `tt.sparse_csc`. Indices of 64 bits are
            copied to the 32 that CuPy has.

    Returns:
        A ``coo_matrix``, ``csr_matrix`` or ``csc_matrix`` over the same values.

    Raises:
        TypeError: The layout, the device or the dimensions are others.

    Example:
        >>> import triten as tt
        >>> tt.sparse.to_cupy(tt.eye(2, device="cuda").to_sparse_csr())  # doctest: +SKIP
    """
    if input.device.type != "cuda":
        raise TypeError(f"to_cupy: expected a CUDA tensor, got one on {input.device}")
    import cupy
    from cupyx.scipy import sparse

    if input.layout is sparse_coo and input.ndim == 2 and not input.dense_dim():
        rows, columns = (cupy.asarray(part.to(int32)) for part in input._indices().unbind(0))
        return sparse.coo_matrix((cupy.asarray(input._values()), (rows, columns)), shape=tuple(input.shape))
    if input.layout is sparse_bsr:
        raise TypeError("to_cupy: CuPy has no matrices of blocks")

    def convert(part: Any) -> Any:
        return cupy.asarray(part.to(int32) if part.dtype is int64 else part)

    return _compressed_to(sparse, "to_cupy", input, convert, "_matrix")


def solved(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve a linear system with a CSR matrix; see `functions.spsolve`.

    Raises:
        RuntimeError: The matrix is singular, on the CPU, or its indices lie outside of it.
    """
    if matrix.device.type == "cuda":
        import cupy
        from cupyx.scipy.sparse.linalg import spsolve

        return as_tensor(spsolve(to_cupy(matrix.detach()), cupy.asarray(right.detach())))
    from scipy.sparse.linalg import splu

    array = to_scipy(matrix.detach().to_sparse_csc())  # the conversion checks indices that SciPy trusts
    try:
        factors = splu(array)
    except RuntimeError as error:
        raise RuntimeError(f"spsolve: the matrix is singular ({error})") from None
    return from_numpy(factors.solve(right.detach().numpy())).to(right.dtype)
