"""Autograd methods of `Tensor`: requires_grad, grad, backward, hooks, versions (torch/_tensor.py)."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from ...runtime.data_of_tensors import followed, followers
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_inference_mode_enabled
from ...runtime.local_dispatch_key_set import modes
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import IN_PLACE_OF_DENSE, OVERRIDE_FLAG
from ...runtime.traceback_filter import hide_inner_frames
from ...runtime.transform_stack import OR_FUNCTIONAL, refuse_inside_transform
from ...runtime.user_frame import levels_to_user
from ..autograd import gradients as functional
from ..autograd.creation import version_at_creation
from ..autograd.engine import own_copy
from ..autograd.inplace import follow_leaf
from ..autograd.node import (
    AccumulateGrad,
    Node,
    NodeHooks,
    RemovableHandle,
    detach_in_place,
    edge_of,
    expect_metadata,
    leaf_meta,
    root_edge,
)
from ..autograd.tangents import set_tangents
from ..core.mode_stack import sees_whole
from ..core.tensor_function import handle_tensor_function, has_tensor_function_unary

if TYPE_CHECKING:
    from ...runtime.tensor_spec import TensorSpec
    from ..autograd.node import AutogradMeta
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


_ONLY_LEAVES = "you can only change requires_grad flags of leaf variables."
_DETACH_INSTEAD = (
    " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
    "var_no_grad = var.detach()."
)

PYTHON_BIT = functionality_bit(Functionality.Python)

_OF_CLASS = functionality_bit(Functionality.Python) | OVERRIDE_FLAG
"""Keys that a tensor has by its class; they stay with the tensor when its bytes are replaced."""


class _Counted:
    """Object with a method that returns its own reference count."""

    def references(self) -> int:
        return sys.getrefcount(self)


def _references_of_one_holder() -> int:
    held = _Counted()
    return held.references()


_HELD_BY_ONE = _references_of_one_holder()
"""`sys.getrefcount` inside a method, for an object held by one variable and no view."""


def _check_may_require_grad(spec: TensorSpec) -> None:
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if spec.is_inference and not is_inference_mode_enabled():
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )


def require_grad_of_new(tensor: TensorImpl) -> None:
    """Set `requires_grad` of a new tensor, which has no views.

    Raises RuntimeError in the same cases as `requires_grad_`.
    """
    _check_may_require_grad(tensor._spec)
    tensor._spec = tensor._spec.twin
    if tensor._autograd is None:
        tensor._autograd = leaf_meta()


class AutogradMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__: tuple[str, ...] = ()

    @property
    def requires_grad(self) -> bool:
        """True if operators record this tensor for backward. Setting it acts like `requires_grad_`."""
        return self._spec.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        if not self.is_leaf:
            raise RuntimeError(_ONLY_LEAVES if value else _ONLY_LEAVES + _DETACH_INSTEAD)
        self._set_requires_grad(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether autograd records operations on this leaf (`torch.Tensor.requires_grad_`).

        Args:
            requires_grad: If True, record operations.

        Returns:
            The tensor itself.

        Raises:
            RuntimeError: The dtype is neither floating nor complex; the tensor is a non-leaf and `requires_grad` is
                False; it was made in inference mode and the mode is off; or the call is inside a function that
                `tt.func.grad` or a similar transform differentiates.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2).requires_grad_()
            >>> (x * 3).sum().backward()
            >>> x.grad
            tensor([3., 3.])
        """
        if not isinstance(requires_grad, bool | np.bool_):
            kind = type(requires_grad).__name__
            raise TypeError(
                f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {kind}"
            )
        refuse_inside_transform("requires_grad_", OR_FUNCTIONAL)
        return self._set_requires_grad(requires_grad)

    def _set_requires_grad(self, requires_grad: bool = True) -> Self:
        """Run `requires_grad_`, also inside a transformed function."""
        spec = self._spec
        if requires_grad:
            try:
                _check_may_require_grad(spec)
            except RuntimeError:
                hide_inner_frames()
                raise
        if not self.is_leaf:
            if requires_grad:
                return self
            raise RuntimeError(_ONLY_LEAVES + _DETACH_INSTEAD)
        base = self._view_base
        if base is not None and base._spec.requires_grad and not requires_grad:
            return self  # as its base does
        if requires_grad != spec.requires_grad:
            self._spec = spec.twin
            if base is None and sys.getrefcount(self) > _HELD_BY_ONE:
                follow_leaf(self)
        if requires_grad:
            if self._autograd is None:
                self._autograd = leaf_meta()
            elif base is not None:
                self._autograd.follows = False
            if base is not None and not spec.requires_grad:
                self._autograd.version = version_at_creation(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if no recorded operator made this tensor."""
        if not self._spec.requires_grad:
            return True
        edge = edge_of(self)
        return edge is None or edge[0].__class__ is AccumulateGrad

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for a leaf."""
        if not self._spec.requires_grad:
            return None
        edge = edge_of(self)
        return None if edge is None or edge[0].__class__ is AccumulateGrad else edge[0]

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of `grad_fn`."""
        return 0 if self.is_leaf else root_edge(self)[1]

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward accumulated in this leaf, or None.

        Warns for a non-leaf without `retain_grad`, since backward will store no gradient there.
        """
        meta: AutogradMeta | None = self._autograd
        if meta is None:
            return None
        edge = meta.edge
        # The currently known history: refreshing that of an unwritable view would raise.
        is_made = edge is not None and edge[0].__class__ is not AccumulateGrad and self._spec.requires_grad
        if meta.grad is None and is_made and not getattr(meta, "retains_grad", False):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
                "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor "
                "by mistake, make sure you access the leaf Tensor instead.",
                UserWarning,
                stacklevel=levels_to_user(),
            )
        return meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, TensorImpl):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            spec, own = value._spec, self._spec
            if spec.sizes != own.sizes:
                raise RuntimeError(
                    f"assigned grad has data of a different size: expected {list(own.sizes)}, got {list(spec.sizes)}"
                )
            if spec.dtype is not own.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: expected {own.dtype}, got {spec.dtype}"
                )
            if spec.device is not own.device:
                raise RuntimeError(
                    f"assigned grad has data located on a different device: expected {own.device}, got {spec.device}"
                )
        if self._autograd is None:
            if value is None:
                return
            self._autograd = leaf_meta()
        self._autograd.grad = value

    @grad.deleter
    def grad(self) -> None:
        if self._autograd is not None:
            self._autograd.grad = None

    @property
    def _grad(self) -> Tensor | None:
        """Alias of `grad` under PyTorch's private name, which trainers use; it gives no warning."""
        return None if self._autograd is None else self._autograd.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        AutogradMethods.grad.fset(self, value)  # type: ignore[attr-defined]

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Compute the gradients of this tensor and add them to the leaves' ``grad`` (`torch.Tensor.backward`).

        Args:
            gradient: The gradient of a function of this tensor, of its shape; needed unless the tensor has one
                element.
            retain_graph: If True, keep the graph for another call. Default: `create_graph`.
            create_graph: If True, record the gradients, so that they can be differentiated.
            inputs: The leaves that receive gradients. Default: all leaves of the graph.

        Raises:
            RuntimeError: The tensor has several elements and `gradient` is not given, nothing requires grad, or the
                graph was freed by an earlier call.

        Example:
            >>> import triten as tt
            >>> w = tt.tensor([1.0, 2.0], requires_grad=True)
            >>> (w * w).sum().backward()
            >>> w.grad
            tensor([2., 4.])
        """
        try:
            if gradient is not None and has_tensor_function_unary(gradient):
                from ..tensor import Tensor

                handle_tensor_function(
                    Tensor.backward,
                    (self, gradient),
                    self,
                    gradient=gradient,
                    retain_graph=retain_graph,
                    create_graph=create_graph,
                    inputs=inputs,
                )
                return
            functional.backward(self, gradient, retain_graph, create_graph, inputs)  # type: ignore[arg-type]
        except BaseException:
            hide_inner_frames()
            raise

    def detach_(self) -> Self:
        """Detach this tensor from the graph in place (`torch.Tensor.detach_`).

        Returns:
            The tensor itself, which no longer requires grad.

        Raises:
            RuntimeError: The tensor is a view.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2, requires_grad=True) * 2
            >>> x.detach_().requires_grad
            False
        """
        if self._view_base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._spec = self._spec.detached
        if self._autograd is not None:
            detach_in_place(self._autograd)
            set_tangents(self, {})
        return self

    @property
    def data(self) -> Tensor:
        """The tensor without its history, over the same memory, with its own version counter."""
        followed_tensor: Tensor | None = followed(self) if followers else None
        if followed_tensor is not None:
            return followed_tensor
        if self._spec.keys & PYTHON_BIT or (modes and sees_whole()):
            # The handler or mode alone knows the state of its tensors.
            alias: Tensor = self.detach()  # type: ignore[attr-defined]
            if alias is not self:
                alias._version_cell = None
            return alias
        return type(self).from_data(self._data, self._spec.detached)  # type: ignore[return-value]

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, TensorImpl):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if (self._spec.keys ^ value._spec.keys) & IN_PLACE_OF_DENSE:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                f"type: the variable has layout {self._spec.layout}, the tensor {value._spec.layout}"
            )
        dtype = value._spec.dtype
        if self._spec.requires_grad and not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        spec = value._spec
        keys = spec.keys & ~_OF_CLASS | self._spec.keys & _OF_CLASS
        if keys != spec.keys:
            spec = spec.replace(keys=keys)
        self._data = value._data
        self._spec = spec.differentiable if self._spec.requires_grad else spec.detached
        expect_metadata(self)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call a hook with this tensor's gradient once it is computed (`torch.Tensor.register_hook`).

        Args:
            hook: Called as ``hook(grad)``; a returned value, unless None, replaces the gradient from there on. If the
                operation has several outputs and this one has no gradient, `grad` is None.

        Returns:
            A handle; its ``remove()`` removes the hook.

        Raises:
            RuntimeError: The tensor does not require grad.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2, requires_grad=True)
            >>> handle = x.register_hook(lambda grad: grad * 10)
            >>> x.sum().backward()
            >>> x.grad
            tensor([10., 10.])
        """
        if not self._spec.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, number = root_edge(self)
        if node.hooks is None:
            node.hooks = NodeHooks()
        return node.hooks.add(node.hooks.tensor, (number, hook))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call a hook after a gradient was added to this leaf (`torch.Tensor.register_post_accumulate_grad_hook`).

        Args:
            hook: Called as ``hook(tensor)``, whose ``grad`` holds the sum.

        Returns:
            A handle; its ``remove()`` removes the hook.

        Raises:
            RuntimeError: The tensor is not a leaf, or does not require grad.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2, requires_grad=True)
            >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
            >>> x.sum().backward()
            tensor([1., 1.])
        """
        if not self._spec.requires_grad or not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        node, _ = root_edge(self)
        if node.hooks is None:
            node.hooks = NodeHooks()
        return node.hooks.add(node.hooks.accumulated, hook)

    def retain_grad(self) -> None:
        """Make backward store the gradient of this non-leaf tensor in ``grad`` (`torch.Tensor.retain_grad`).

        Raises:
            RuntimeError: The tensor does not require grad, or the call is inside a function that `tt.func.grad` or a
                similar transform differentiates.

        Example:
            >>> import triten as tt
            >>> y = tt.ones(2, requires_grad=True) * 2
            >>> y.retain_grad()
            >>> (y * 3).sum().backward()
            >>> y.grad
            tensor([3., 3.])
        """
        refuse_inside_transform("retain_grad")
        if not self._spec.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf or self.retains_grad:
            return
        self._autograd.retains_grad = True
        target = weakref.ref(self)

        def keep(grad: Tensor) -> None:
            tensor = target()
            if tensor is not None:
                meta = tensor._autograd
                meta.grad = own_copy(grad) if meta.grad is None else meta.grad + grad

        node, number = root_edge(self)
        if node.hooks is None:
            node.hooks = NodeHooks()
        node.hooks.retain[number] = keep

    @property
    def retains_grad(self) -> bool:
        """True if `retain_grad` was called on this non-leaf."""
        return getattr(self._autograd, "retains_grad", False)

    def _is_view(self) -> bool:
        return self._view_base is not None

    @property
    def _base(self) -> TensorImpl | None:
        """The base of this view, or None."""
        return self._view_base
