"""Functions of sparse tensors (`torch.sparse`).

A sparse tensor specifies some of its elements. The others are zero, and softmax ignores them. `tt.sparse_coo_tensor`
and similar constructors make sparse tensors. `Tensor.to_sparse` and `Tensor.to_dense` convert. `+`, `*`, `@` and
functions that preserve zero accept them.

Example:
    >>> import triten as tt
    >>> x = tt.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> x @ tt.ones(3, 1)
    tensor([[3.],
            [9.]])

In this folder `functions` has sums, softmax and products, `invariants` when the parts of a sparse tensor are looked at,
`interchange` the way to SciPy's and CuPy's arrays and back, `semi_structured` matrices of which two in four elements
are kept, which have no layout of their own but packed parts. Kernels are in `dispatch/layers/sparse/`.
"""

from ..dispatch.methods import tensor_types as _types
from ..runtime.layout import sparse_coo as _sparse_coo
from .functions import (
    addmm,
    as_sparse_gradcheck,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    spdiags,
    spsolve,
    sum,
)
from .interchange import from_cupy, from_scipy, to_cupy, to_scipy
from .invariants import check_sparse_tensor_invariants
from .semi_structured import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "from_cupy",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
    "to_cupy",
    "to_scipy",
    "to_sparse_semi_structured",
]

(
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
) = (
    _types.TensorType(each.dtype, layout=_sparse_coo)
    for each in (
        *(
            _types.BFloat16Tensor,
            _types.ByteTensor,
            _types.CharTensor,
            _types.DoubleTensor,
            _types.FloatTensor,
        ),
        *(_types.HalfTensor, _types.IntTensor, _types.LongTensor, _types.ShortTensor),
    )
)
