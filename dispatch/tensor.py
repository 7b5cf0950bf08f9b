"""`Tensor`: a `TensorImpl` with the operators' methods; `dispatch/methods` attaches the hand-written ones."""

from __future__ import annotations

from collections.abc import Callable

from ..runtime.tensor_impl import TensorImpl
from .core.tensor_function import plain_classes
from .generated.methods import TensorMethods
from .schema import register_exact_type
from .tensor_meta import TensorMeta


class Tensor(TensorMethods, TensorImpl, metaclass=TensorMeta):
    """Multi-dimensional array with elements of one dtype on one device (`torch.Tensor`).

    Factories such as `tt.tensor`, `tt.zeros` and `tt.from_numpy` make tensors; methods have PyTorch's names. Calling
    the class makes tensors as PyTorch's first versions did, of the default dtype on the CPU. A subclass makes tensors
    of its own class.

    Args:
        *data: Sizes, as numbers or a `Size`, for a tensor without values; a sequence for one of its elements; nothing
            for an empty one; a tensor, of any dtype, for a view of it, or a storage for a tensor over its bytes.
        device: ``"cpu"``.
        **named: Instead of `data`, one of `size`, `data`, `storage` and `other`, as `torch.Tensor.new` names them.

    Raises:
        TypeError: `data` is not a sequence, a size is not an integer, or a keyword is unknown.
        RuntimeError: `device` is not the class's own, or a size is negative.

    Example:
        >>> import triten as tt
        >>> tt.Tensor([1, 2]), tt.Tensor(2, 3).shape
        (tensor([1., 2.]), triten.Size([2, 3]))
        >>> x = tt.ones(2, 3)
        >>> (x + x).sum().item()
        12.0
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    __array_priority__ = 1000

    def __dir__(self) -> list[str]:
        """Return the names without the package's private ones: CPython suggests names from at most 750."""
        return [
            name
            for name in object.__dir__(self)
            if name[0] != "_" or name[:2] == "__" or not hasattr(Tensor, name)
        ]


blank_tensor: Callable[[], Tensor] = type.__call__.__get__(Tensor)
"""Return a tensor with empty slots, as fast as a class without constructor makes it."""

register_exact_type("Tensor", Tensor)
plain_classes.add(Tensor)
