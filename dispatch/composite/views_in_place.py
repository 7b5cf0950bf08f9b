"""In-place views: ``transpose_``, ``squeeze_`` and similar operators. They move and write no bytes.

The tensor's history and tangents become those of the view. Its version counts the change as a write. Earlier views of
the tensor keep their own sizes (torch/csrc/autograd VariableTypeManual, ATen/native/TensorShape.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import AUTOGRAD_BITS, PYTHON_BIT
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, local
from ..autograd.inplace import check_inplace
from ..autograd.node import expect_metadata
from ..autograd.tangents import FORWARD_BIT, set_tangents, tangents_of

if TYPE_CHECKING:
    from ..tensor import Tensor

InPlace = Callable[..., Any]


def check_leaf(tensor: Tensor) -> None:
    """Raise an error for a write to a leaf before any other check of the call."""
    if tensor._spec.requires_grad and is_grad_enabled():
        check_inplace(tensor)


def _take_history(tensor: Tensor, view: Tensor) -> None:
    """Give a tensor the history and the tangents of the view that it becomes."""
    history = view._autograd
    if tensor._spec.requires_grad:
        if history is not None and history.edge is not None and tensor._view_base is None:
            tensor._autograd.edge = history.edge
        expect_metadata(tensor)
    if view._spec.keys & FORWARD_BIT:
        set_tangents(tensor, tangents_of(view))


def becoming(name: str) -> InPlace:
    """Return the in-place form of the view method `name`.

    The handler of a subclass sees the in-place form, and changes the metadata of its tensor itself.
    """

    def become(self: Tensor, *args: Any) -> Tensor:
        check_leaf(self)
        view = getattr(self, name)(*args)
        if self._spec.keys & PYTHON_BIT & ~local.excluded and not getattr(type(self), "sees_parts", False):
            with ExcludeDispatchKeyGuard(AUTOGRAD_BITS | FORWARD_BIT):
                getattr(self, f"{name}_")(*args)
            _take_history(self, view)
            return self
        spec = view._spec
        if spec.keys != self._spec.keys:
            spec = spec.replace(keys=self._spec.keys)
        self._data, self._spec = view._data, spec.differentiable if self._spec.requires_grad else spec
        _take_history(self, view)
        self.bump_version()
        return self

    become.__doc__ = f"`Tensor.{name}_`."
    become.__name__ = f"{name}_"
    return become


as_strided_ = becoming("as_strided")
squeeze_ = becoming("squeeze")
t_ = becoming("t")
transpose_ = becoming("transpose")
unsqueeze_ = becoming("unsqueeze")


def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """Run `Tensor.swapaxes_`: `transpose_` by NumPy's name, which modes see."""
    return self.transpose_(axis0, axis1)


def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Run `Tensor.swapdims_`: `transpose_`, which modes see."""
    return self.transpose_(dim0, dim1)
