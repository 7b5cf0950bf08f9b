"""Methods of `Tensor` that PyTorch keeps from its first versions, and methods of unsupported devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ...runtime.storage import address_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ...runtime.user_frame import levels_to_user
from ..core.tensor_function import handle_tensor_function, has_tensor_function_variadic

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .typed_storage import TypedStorage

    _Base = TensorImpl
else:
    _Base = object

_REMOVED = "This function was deprecated since version 1.9 and is now removed. `tt.{}` is deprecated in favor of `{}`."


class FormerMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def storage(self) -> TypedStorage:
        """Return the storage as typed elements (`torch.Tensor.storage`), deprecated: see `untyped_storage`.

        Returns:
            A `tt.storage.TypedStorage` of all elements, including those outside of a view.

        Example:
            >>> import triten as tt
            >>> tt.arange(3.0)[1:].storage().tolist()
            [0.0, 1.0, 2.0]
        """
        from . import typed_storage

        typed_storage.warn()
        return self._typed_storage()

    def _typed_storage(self) -> TypedStorage:
        """Return `storage` without a warning."""
        from .typed_storage import TypedStorage

        storage: Any = self.untyped_storage()
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    def storage_type(self) -> type[Any] | None:
        """Return the legacy class of the storage (`torch.Tensor.storage_type`): `tt.storage.FloatStorage` for
        float32.

        Returns:
            A class; None for a dtype that has none.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).storage_type().__name__
            'FloatStorage'
        """
        return self._typed_storage()._get_legacy_storage_class()

    def const_data_ptr(self) -> int:
        """Return the address of the first element, for reading (`torch.Tensor.const_data_ptr`).

        Returns:
            An address.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2); x.const_data_ptr() == x.data_ptr()
            True
        """
        return address_of(self._data)

    @api_boundary
    def module_load(self, other: Tensor, assign: bool = False) -> Tensor:
        """Return the tensor that a module's `load_state_dict` stores for this parameter (`torch.Tensor.module_load`).

        A subclass overrides it to define how it takes another tensor's values.

        Args:
            other: The tensor of the file.
            assign: If True, use `other` itself instead of copying its values into this tensor.

        Returns:
            A tensor that is neither of the two, over the bytes of one.

        Raises:
            RuntimeError: The sizes do not fit.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2).module_load(tt.ones(2))
            tensor([1., 1.])
        """
        if has_tensor_function_variadic(self, other):
            loaded: Tensor = handle_tensor_function(
                type(self).module_load, (self, other), self, other, assign=assign
            )
            return loaded
        this: Any = self
        result: Tensor = other.detach() if assign else this.copy_(other).detach()
        return result

    @api_boundary
    def resize(self, *sizes: Any) -> Tensor:
        """Return the tensor reshaped to other sizes (`torch.Tensor.resize`), deprecated: see `reshape`.

        Args:
            *sizes: Sizes with the same number of elements.

        Returns:
            A view, or a copy.

        Raises:
            RuntimeError: The number of elements differs.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 2).resize(4).shape
            triten.Size([4])
        """
        return _reshaped(self, *sizes)

    @api_boundary
    def resize_as(self, tensor: Tensor) -> Tensor:
        """Return the tensor reshaped to the sizes of another (`torch.Tensor.resize_as`), deprecated: see `reshape`.

        Args:
            tensor: A tensor with the same number of elements.

        Returns:
            A view, or a copy.

        Raises:
            RuntimeError: The number of elements differs.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 2).resize_as(tt.ones(4)).shape
            triten.Size([4])
        """
        return _reshaped(self, tensor.shape)

    def is_distributed(self) -> bool:
        """Return False: tensors are not distributed over several machines (`torch.Tensor.is_distributed`).

        Returns:
            False.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).is_distributed()
            False
        """
        return False

    @property
    def name(self) -> None:
        """The name of a graph's input in PyTorch's first versions (`torch.Tensor.name`): None."""

    @property
    def volatile(self) -> bool:
        """False; PyTorch's first versions marked unrecorded tensors this way (`torch.Tensor.volatile`); see
        `no_grad`.
        """
        return False


def _reshaped(tensor: Any, *sizes: Any) -> Tensor:
    import warnings

    warnings.warn("non-inplace resize is deprecated", stacklevel=levels_to_user())
    result: Tensor = tensor.reshape(*sizes)
    return result


def _removed(name: str, today: str) -> Any:
    @api_boundary
    def removed(self: Any, *args: Any, **named: Any) -> NoReturn:
        raise RuntimeError(_REMOVED.format(name, today))

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"""Raises RuntimeError, as PyTorch's does (`torch.Tensor.{name}`): see `{today}`.

        Args:
            *args: Whatever it took.
            **named: Whatever it took.

        Returns:
            Nothing.

        Raises:
            RuntimeError: Always.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 2).{name}()
            Traceback (most recent call last):
            RuntimeError: {_REMOVED.format(name, today)}
        """
    return removed


def _absent(name: str, vendor: str) -> Any:
    @api_boundary
    def absent(self: Any, *args: Any, **named: Any) -> NoReturn:
        raise RuntimeError(f"Tensor.{name}: triten has no kernels for {vendor}, which {name!r} stands for")

    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = f"""Raises RuntimeError (`torch.Tensor.{name}`): there are no kernels for {vendor}.

        Args:
            *args: Whatever it takes.
            **named: Whatever it takes.

        Returns:
            Nothing.

        Raises:
            RuntimeError: Always.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).{name}()
            Traceback (most recent call last):
            RuntimeError: Tensor.{name}: triten has no kernels for {vendor}, which {name!r} stands for
        """
    return absent


def _lies_on(name: str, vendor: str) -> property:
    return property(
        lambda self: False, doc=f"Whether the tensor lies on {vendor} (`torch.Tensor.{name}`): none does."
    )


for _name, _today in {
    "eig": "tt.linalg.eig", "lstsq": "tt.linalg.lstsq", "solve": "tt.linalg.solve", "symeig": "tt.linalg.eigh",
    "reinforce": "tt.distributions",
}.items():  # fmt: skip
    setattr(FormerMethods, _name, _removed(_name, _today))
for _name, _vendor in {"ipu": "Graphcore's IPU", "xpu": "Intel's GPUs", "mtia": "Meta's MTIA"}.items():
    setattr(FormerMethods, _name, _absent(_name, _vendor))
for _name, _vendor in {
    "is_maia": "Microsoft's Maia",
    "is_mtia": "Meta's MTIA",
    "is_vulkan": "Vulkan",
}.items():
    setattr(FormerMethods, _name, _lies_on(_name, _vendor))
