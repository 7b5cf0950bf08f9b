"""`tt.ao` (`torch.ao`): of its tools for smaller models, the modules that stand in those of other people."""

from . import quantization as quantization

__all__ = ["quantization"]
