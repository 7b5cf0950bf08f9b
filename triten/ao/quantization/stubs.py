"""Stubs that mark the start and the end of a model's quantized part; they return their input."""

from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Module):
    """Identity that marks the start of a quantized part (`torch.ao.quantization.QuantStub`).

    Args:
        qconfig: Stored as an attribute if given.

    Example:
        >>> import triten as tt
        >>> from triten.ao.quantization import QuantStub
        >>> QuantStub()(tt.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return x


class DeQuantStub(QuantStub):
    """Identity that marks the end of a quantized part (`torch.ao.quantization.DeQuantStub`)."""
