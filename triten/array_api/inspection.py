"""Inspection functions of the standard, which describe the namespace's capabilities."""

from __future__ import annotations

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType
from .data_type_functions import KINDS
from .promotion import DTYPES

__all__ = ["__array_namespace_info__"]

MAX_DIMENSIONS = 64
"""The most dimensions of a tensor (`c10::kMaxDim`)."""


class __array_namespace_info__:
    """Devices, dtypes and capabilities of the namespace.

    Source: https://data-apis.org/array-api/2025.12/API_specification/inspection.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.__array_namespace_info__().default_dtypes()["integral"]
        triten.int64
    """

    def capabilities(self) -> dict[str, bool | int | None]:
        """Return the supported optional parts of the standard, and the maximum number of dimensions."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MAX_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """Return the device of new arrays."""
        return functions.empty((0,)).device

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, ScalarType]:
        """Return the dtypes of new arrays by kind, the same on every device."""
        floating = st.get_default_dtype()
        return {
            "real floating": floating,
            "complex floating": floating.to_complex(),
            "integral": st.int64,
            "indexing": st.int64,
        }

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, ScalarType]:
        """Return the standard's dtypes by name, of one kind or several; the same on every device.

        Raises ValueError for an unknown kind.
        """
        if kind is None:
            return {dtype.name: dtype for dtype in DTYPES}
        if isinstance(kind, tuple):
            return {name: dtype for each in kind for name, dtype in self.dtypes(kind=each).items()}
        if kind not in KINDS:
            raise ValueError(f"dtypes(): expected one of {', '.join(KINDS)}, got {kind!r}")
        return {dtype.name: dtype for dtype in KINDS[kind]}

    def devices(self) -> tuple[Device, ...]:
        """Return the available devices: the CPU, and each CUDA device."""
        from ..cuda import device_count

        return (Device("cpu"), *(Device("cuda", index) for index in range(device_count())))
