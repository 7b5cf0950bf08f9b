"""`tt.ao.nn.quantized` (`torch.ao.nn.quantized`): layers with quantized weights, in `dynamic`."""

from . import dynamic as dynamic

__all__ = ["dynamic"]
