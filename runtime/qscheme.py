"""Quantization schemes: the mapping of a quantized tensor's integers to numbers (c10/core/QScheme.h)."""

from __future__ import annotations

from . import public_name


class qscheme:
    """Quantization scheme, such as ``tt.per_tensor_affine``; compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{public_name.shown}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

QScheme = qscheme
"""The class, by its name in schemas."""
