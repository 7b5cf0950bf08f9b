"""Nested tensors: batches of tensors of different sizes (`torch.nested`).

A nested tensor of layout ``tt.jagged`` stores its sequences contiguously in one packed tensor. With layout
``tt.strided`` each tensor is stored separately. `__tensor_function__` handles public calls by calls over their parts,
so derivatives, autocast and devices are those of plain tensors. An unsupported call raises NotImplementedError with
its name.

Example:
    >>> import triten as tt
    >>> x = tt.nested.nested_tensor([tt.ones(2, 4), tt.ones(3, 4)], layout=tt.jagged)
    >>> y = tt.nn.Linear(4, 8)(x).relu()
    >>> y.size(0), y.size(2), y.to_padded_tensor(0.0).shape
    (2, 8, triten.Size([2, 3, 8]))

In this folder `ragged` has offsets and lengths, `nested_tensor` and `strided` the two classes; the modules whose names
are families of operators fill their tables.
"""

from . import (  # noqa: F401 - they fill the tables
    derivatives,
    pointwise,
    products,
    reductions,
    shapes,
    strided_products,
    strided_shapes,
)
from .creation import as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged
from .padding import to_padded_tensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
