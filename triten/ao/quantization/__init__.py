"""`tt.ao.quantization`: the modules that mark where a model's quantized part begins and ends.

Models hold them so that PyTorch's tools may exchange them. Those tools are not here; without them the modules pass
their input on, as PyTorch's do.
"""

from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Module):
    """Where a quantized part begins (`torch.ao.quantization.QuantStub`): the input as it is.

    Args:
        qconfig: kept as an attribute if given.

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
        """The input."""
        return x


class DeQuantStub(QuantStub):
    """Where a quantized part ends (`torch.ao.quantization.DeQuantStub`): the input as it is."""
