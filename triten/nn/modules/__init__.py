"""`Module` and the layers, one file for each family (`torch.nn.modules`).

A layer has parameters and a `forward` of one call. `module.py` is the base class; hooks, conversion and state are
beside it. Layers compute nothing themselves: they call operators or `nn.functional`. A name's module is imported at
its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from .activation import *
    from .adaptive import *
    from .batchnorm import *
    from .channelshuffle import *
    from .container import *
    from .conv import *
    from .distance import *
    from .dropout import *
    from .flatten import *
    from .fold import *
    from .instancenorm import *
    from .lazy import LazyBatchNorm1d as LazyBatchNorm1d
    from .lazy import LazyBatchNorm2d as LazyBatchNorm2d
    from .lazy import LazyBatchNorm3d as LazyBatchNorm3d
    from .lazy import LazyConv1d as LazyConv1d
    from .lazy import LazyConv2d as LazyConv2d
    from .lazy import LazyConv3d as LazyConv3d
    from .lazy import LazyConvTranspose1d as LazyConvTranspose1d
    from .lazy import LazyConvTranspose2d as LazyConvTranspose2d
    from .lazy import LazyConvTranspose3d as LazyConvTranspose3d
    from .lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
    from .lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
    from .lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
    from .lazy import LazyLinear as LazyLinear
    from .linear import Bilinear as Bilinear
    from .linear import Identity as Identity
    from .linear import Linear as Linear
    from .linear_cross_entropy import *
    from .loss import *
    from .module import *
    from .normalization import *
    from .padding import *
    from .parameter import *
    from .pixelshuffle import *
    from .pooling import *
    from .rnn import *
    from .sparse import *
    from .transformer import *
    from .uninitialized import UninitializedBuffer as UninitializedBuffer
    from .uninitialized import UninitializedParameter as UninitializedParameter
    from .upsampling import *
else:
    from .. import _MODULES

    _NAMES = {
        path.removeprefix(".modules"): names
        for path, names in _MODULES.items()
        if path.startswith(".modules")
    }
    _SUBMODULES = (*(path[1:] for path in _NAMES), "utils")
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES, _SUBMODULES)
    __all__ = [name for name in __all__ if name not in _SUBMODULES]
