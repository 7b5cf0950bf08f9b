"""Methods of tensors that only the Python array API standard needs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the standard that `triten.array_api` implements; each includes the earlier ones."""


class ArrayApiMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @api_boundary
    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return the namespace of the Python array API standard, `triten.array_api`, imported on the first call.

        Args:
            api_version: A version of the standard, ``"2021.12"`` to ``"2025.12"``; by default the newest.

        Raises:
            ValueError: The version is not supported.

        Source: https://data-apis.org/array-api/2025.12/API_specification/array_object.html

        Example:
            >>> import triten as tt
            >>> tt.ones(2).__array_namespace__().__array_api_version__
            '2025.12'
        """
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(
                f"__array_namespace__(): expected api_version to be one of {', '.join(VERSIONS)}, got {api_version!r}"
            )
        # Imported by name: no module of a lower layer depends on the namespace.
        return import_module(f"{str(__package__).partition('.')[0]}.array_api")

    @api_boundary
    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on another device.

        Args:
            device: The device, or its name.
            stream: None, or a stream of CUDA on which the copy is enqueued.

        Returns:
            A copy; the tensor itself if it is there already.

        Source: https://data-apis.org/array-api/2025.12/API_specification/array_object.html

        Example:
            >>> import triten as tt
            >>> tt.ones(2).to_device("cpu").device
            device(type='cpu')
        """
        tensor: Tensor = self  # type: ignore[assignment]
        if stream is None:
            return tensor.to(device=device)
        with stream:
            return tensor.to(device=device)
