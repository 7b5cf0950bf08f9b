"""`tt.ao` (`torch.ao`): quantized layers in `nn`, and the functions that convert models to them in `quantization`."""

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from . import nn as nn
    from . import quantization as quantization
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {}, ("nn", "quantization"))
