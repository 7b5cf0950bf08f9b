"""`tt.ao.nn` (`torch.ao.nn`): layers of quantized models, in `quantized`."""

from . import quantized as quantized

__all__ = ["quantized"]
