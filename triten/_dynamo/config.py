"""Settings of the compiler by PyTorch's names (`torch._dynamo.config`): any may be set.

`recompile_limit` and its former name `cache_size_limit` are the most graphs of a function. All others have no effect.
"""

import sys

from ..compiler import optimized as _optimized
from ..utils._config_module import ConfigModule as _ConfigModule
from ..utils._config_module import install_config_module as _install_config_module

accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit: int
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
disable = False
dynamic_shapes = True
fail_on_recompile_limit_hit = False
inline_inbuilt_nn_modules = True
recompile_limit: int
skip_fwd_side_effects_in_bwd_under_checkpoint = False
suppress_errors = False
verbose = False


class _Config(_ConfigModule):
    """Module of the settings."""

    @property
    def recompile_limit(self) -> int:
        """The most graphs of a function that names no limit of its own."""
        return _optimized.LIMIT

    @recompile_limit.setter
    def recompile_limit(self, limit: int) -> None:
        _optimized.LIMIT = limit

    cache_size_limit = recompile_limit


_install_config_module(sys.modules[__name__], _Config)
