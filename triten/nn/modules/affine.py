"""Affine parameters (scale and shift) of normalization layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = []


class _Affine(Module):
    """Affine parameters: a weight of ones and a bias of zeros, or neither, or the weight alone."""

    weight: Parameter | None
    bias: Parameter | None

    def _register_affine(
        self,
        sizes: int | Sequence[int],
        weight: bool,
        bias: bool,
        device: DeviceLike,
        dtype: ScalarType | None,
    ) -> None:
        for name, enabled in (("weight", weight), ("bias", bias)):
            parameter = Parameter(_ops.empty(sizes, device=device, dtype=dtype)) if enabled else None
            self.register_parameter(name, parameter)

    def _reset_affine(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
