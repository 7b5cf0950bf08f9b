"""Settings of PyTorch's code generator (`torch._inductor.config`): any may be set, none has an effect.

A program's own passes over graphs, such as `post_grad_custom_post_pass`, are refused by NotImplementedError.
`tt.compile` takes its own options; `tt.compiler.list_options` names them.
"""

import os
import sys
from typing import Any

from ..compiler.options import refuse_pass as _refuse_pass
from ..utils._config_module import ConfigModule as _ConfigModule
from ..utils._config_module import install_config_module as _install_config_module

allow_buffer_reuse = True
compile_threads = os.cpu_count() or 1
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
custom_partitioner_fn: Any = None
debug = False
emulate_precision_casts = False
epilogue_fusion = True
force_disable_caches = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache: bool | None = None
joint_custom_post_pass: Any = None
joint_custom_pre_pass: Any = None
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_gemm_search_space = "DEFAULT"
max_autotune_pointwise = False
post_grad_custom_post_pass: Any = None
post_grad_custom_pre_pass: Any = None
post_grad_fusion_options: dict[str, Any] = {}
pre_grad_custom_pass: Any = None
pre_grad_fusion_options: dict[str, Any] = {}
shape_padding = True


class triton:
    """Settings of generated Triton kernels."""

    cudagraph_trees = True
    cudagraphs = False
    multi_kernel = 0
    unique_kernel_names = True
    use_block_ptr = False


class cpp:
    """Settings of generated C++ kernels."""

    enable_concat_linear = False
    threads = -1
    weight_prepack = True


class trace:
    """Settings of logs."""

    enabled = False
    graph_diagram = False


class _Config(_ConfigModule):
    """Module of the settings."""

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_pass(name, value)
        super().__setattr__(name, value)


_install_config_module(sys.modules[__name__], _Config)
