"""What is done to parameters and sequences beside layers (`torch.nn.utils`).

Gradients are clipped in `clipping`, parameters made one vector in `vectors`, computed from others in `parametrize` and
`parametrizations`, norms folded into layers in `fusion`, sequences packed in `rnn`. A name's module is imported with
its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

_SUBMODULES = ("parametrizations", "parametrize", "rnn")
_MODULES = {
    ".clipping": "clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    ".construction": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format skip_init",
    ".fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    ".norm_hooks": "remove_spectral_norm remove_weight_norm spectral_norm weight_norm",
    ".vectors": "parameters_to_vector vector_to_parameters",
}

if TYPE_CHECKING:
    from . import parametrizations as parametrizations
    from . import parametrize as parametrize
    from . import rnn as rnn
    from .clipping import *
    from .construction import *
    from .fusion import *
    from .norm_hooks import *
    from .vectors import *
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)
