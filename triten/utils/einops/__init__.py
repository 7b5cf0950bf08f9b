"""einops on tensors: its functions take them as they are, and its layers are here as modules.

The package ``einops`` finds the framework of an array among the subclasses of its `AbstractBackend`. `backend` has
ours, which `import triten` adds as soon as a program imports ``einops``, whichever of the two comes first. `layers` has
the modules that `einops.layers.torch` has for PyTorch.

Source: https://einops.rocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from .layers import EinMix as EinMix
    from .layers import Rearrange as Rearrange
    from .layers import Reduce as Reduce

    __all__ = ["EinMix", "Rearrange", "Reduce"]
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {".layers": "EinMix Rearrange Reduce"})
