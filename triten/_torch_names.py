"""PyTorch's names that hold "torch", for the programs of `as_torch`: beside ours, and only where it asks for them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, NoReturn, Self

from . import _C, jit, library, overrides
from .dispatch.core.tensor_function import disabled_tensor_function, other_handlers
from .dispatch.layers.overrides.function_mode import TensorFunctionMode
from .dispatch.layers.python_key import TensorDispatchMode
from .dispatch.methods import typed_storage
from .dispatch.tensor import Tensor
from .nn.modules.parameter import Buffer, Parameter
from .runtime import public_name
from .runtime.grad_mode import is_grad_enabled
from .runtime.traceback_filter import api_boundary
from .utils import _python_dispatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Pushed:
    """Deprecated constructor of both kinds of modes."""

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a mode made of the arguments; ``with Mode(...)`` does the same."""
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2
        )
        return cls(*args, **kwargs)


class TorchFunctionMode(_Pushed, TensorFunctionMode):
    """A `TensorFunctionMode` whose handler is called ``__torch_function__``."""

    def __init__(self) -> None:
        """Any mode takes its own arguments; this one has none."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Handle one call."""
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_function__")

    def __tensor_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return self.__torch_function__(func, types, args, kwargs)

    def __enter__(self) -> Any:
        if isinstance(type(self).__dict__.get("__torch_function__"), classmethod | staticmethod):
            raise RuntimeError(
                "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a plain "
                f"method: {type(self).__name__}"
            )
        return super().__enter__()


class TorchDispatchMode(_Pushed, TensorDispatchMode):
    """A `TensorDispatchMode` whose handler is called ``__torch_dispatch__``."""

    def __init__(self, _dispatch_key: object = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError(
                "TorchDispatchMode: modes at a dispatch key of their own are not supported"
            )

    def __enter__(self) -> Any:
        if isinstance(type(self).__dict__.get("__torch_dispatch__"), classmethod | staticmethod):
            raise RuntimeError(
                "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a plain "
                "method"
            )
        return super().__enter__()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Handle one operator."""
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_dispatch__")

    def __tensor_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return self.__torch_dispatch__(func, types, args, kwargs)


def of_root() -> dict[str, Any]:
    """Return names of PyTorch's root that have another location here.

    The root has no names that wait for their first use, and ``import triten`` pays for none of these.
    """
    scripts = {name: getattr(jit, name) for name in ("ScriptFunction", "ScriptModule")}
    return {
        **scripts,
        **{name: _Removed(name) for name in REMOVED},
        **typed_storage.legacy,
        "Storage": typed_storage.legacy["FloatStorage"],
        "StorageBase": typed_storage.UntypedStorage,
        "TypedStorage": typed_storage.TypedStorage,
    }


REMOVED = {
    "eig": "linalg.eig, or linalg.eigvals for the eigenvalues alone. They return complex tensors.",
    "lstsq": "linalg.lstsq(A, B).solution for lstsq(B, A).solution[:A.size(1)].",
    "matrix_rank": "linalg.matrix_rank, whose parameter 'hermitian' is the former 'symmetric'.",
    "solve": "linalg.solve(A, B) for solve(B, A).solution.",
    "symeig": "linalg.eigh, or linalg.eigvalsh for the eigenvalues alone, with UPLO='U' for the upper triangle.",
}
"""Functions that PyTorch removed, and what replaces them."""


class _Removed:
    """A function that raises RuntimeError. It is no Python function, so function modes leave it alone."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{self.__name__}: This function was deprecated since version 1.9 and is now removed. "
            f"Use torch.{REMOVED[self.__name__]}"
        )


_numpy = Tensor.numpy


@api_boundary
def numpy(self: Tensor, *, force: bool = False) -> NDArray[Any]:
    """Convert a tensor as `Tensor.numpy` does, but only dtypes that NumPy itself has.

    Raises:
        TypeError: NumPy does not have the dtype.
    """
    dtype = self.dtype
    if self._spec.np_dtype.isbuiltin != 1 and (force or not (self.requires_grad and is_grad_enabled())):
        raise TypeError(f"Got unsupported ScalarType {dtype.scalar_name}")
    return _numpy(self, force=force)


def _hide_array_namespace() -> None:
    """Remove the attribute by which libraries take a tensor for an array of the standard: PyTorch's has none.

    xarray, for example, converts PyTorch's tensors to NumPy.
    """
    for cls in Tensor.__mro__:
        if "__array_namespace__" in vars(cls):
            delattr(cls, "__array_namespace__")


def add() -> None:
    """Give the modules, classes and texts of this process PyTorch's names too."""
    for module in (overrides, _C):
        for name, value in list(vars(module).items()):
            theirs = name.replace("tensor_function", "torch_function").replace(
                "TensorFunction", "TorchFunction"
            )
            vars(module).setdefault(theirs, value)
    vars(sys.modules[__package__]).update(of_root())
    for name in REMOVED.keys() - {"matrix_rank"}:
        setattr(Tensor, name, _Removed(name))
    Tensor.numpy = numpy  # type: ignore[assignment, method-assign]
    _hide_array_namespace()
    vars(overrides)["TorchFunctionMode"] = TorchFunctionMode
    vars(library)["register_torch_dispatch"] = library.register_tensor_dispatch
    vars(_python_dispatch)["TorchDispatchMode"] = TorchDispatchMode
    other_handlers.append("__torch_function__")
    public_name.shown = "torch"
    handlers = {
        Tensor: getattr_static(Tensor, "__tensor_function__"),
        Parameter: disabled_tensor_function,
        Buffer: disabled_tensor_function,
    }
    for cls, handler in handlers.items():
        cls.__torch_function__ = handler  # type: ignore[attr-defined]
