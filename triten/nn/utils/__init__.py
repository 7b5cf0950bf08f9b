"""Operations on parameters and sequences (`torch.nn.utils`).

- `clip_grad` clips gradients.
- `convert_parameters` flattens parameters into one vector.
- `parametrize` and `parametrizations` compute parameters from others.
- `prune` masks parameters.
- `fusion` folds batch norms into layers.
- `rnn` packs sequences.

A name's module is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

_SUBMODULES = ("init", "memory_format", "parametrizations", "parametrize", "prune", "rnn", "stateless")
_MODULES = {
    ".clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    ".convert_parameters": "parameters_to_vector vector_to_parameters",
    ".fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    ".init": "skip_init",
    ".memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
}

if TYPE_CHECKING:
    from . import init as init
    from . import memory_format as memory_format
    from . import parametrizations as parametrizations
    from . import parametrize as parametrize
    from . import prune as prune
    from . import rnn as rnn
    from . import stateless as stateless
    from .clip_grad import *
    from .convert_parameters import *
    from .fusion import *
    from .init import *
    from .memory_format import *
    from .spectral_norm import *
    from .weight_norm import *
else:
    # These modules have the names of functions, which have to be bound after them.
    from .spectral_norm import remove_spectral_norm, spectral_norm
    from .weight_norm import remove_weight_norm, weight_norm

    __getattr__, __dir__, __all__ = lazy_names(
        __name__, _MODULES, ("clip_grad", "convert_parameters", "fusion", *_SUBMODULES)
    )
    __all__ += ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]
