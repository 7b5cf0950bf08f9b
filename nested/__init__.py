"""`tt.nested`: batches of tensors of different sizes (`torch.nested`).

A nested tensor of layout ``tt.jagged`` keeps its sequences one behind the other in one packed tensor; of layout
``tt.strided``, one by one. Public calls come to them through `__tensor_function__` and are made of calls over their
parts, so that derivatives, autocast and devices are those of plain tensors. What a layout does not support raises
NotImplementedError, with the name of the call.

Example:
    >>> import triten as tt
    >>> x = tt.nested.nested_tensor([tt.ones(2, 4), tt.ones(3, 4)], layout=tt.jagged)
    >>> y = tt.nn.Linear(4, 8)(x).relu()
    >>> y.size(0), y.size(2), y.to_padded_tensor(0.0).shape
    (2, 8, triten.Size([2, 3, 8]))

In this folder `ragged` has offsets and lengths, `nested_tensor` and `strided` the two classes; the modules whose names
are families of operators fill their tables.
"""

from . import derivatives, pointwise, products, reductions, shapes  # noqa: F401 - they fill the table
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
