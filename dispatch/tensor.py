"""`Tensor`: a `TensorImpl` with the operators' methods; those written by hand are attached by `dispatch/methods`."""

from __future__ import annotations

from ..runtime.tensor_impl import TensorImpl
from .core.tensor_function import plain_classes
from .generated.methods import TensorMethods
from .schema import register_exact_type
from .tensor_meta import TensorMeta


class Tensor(TensorMethods, TensorImpl, metaclass=TensorMeta):
    """A multi-dimensional array with elements of one dtype on one device (`torch.Tensor`).

    Made by factories such as `tt.tensor`, `tt.zeros`, `tt.from_numpy`; methods carry PyTorch's names.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, 3)
        >>> (x + x).sum().item()
        12.0
    """

    __slots__ = ()
    __hash__ = TensorImpl.__hash__
    __array_priority__ = 1000


register_exact_type("Tensor", Tensor)
plain_classes.add(Tensor)
