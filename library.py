"""`tt.library`: operators of your own (`torch.library`).

`custom_op` makes a Python function an operator, `opcheck` tests one. `cpu_kernel` and `gpu_kernel` compute pointwise
operators from a function of elements.
"""

from .dispatch.core.library import Library, fallthrough_kernel
from .dispatch.custom_op import CustomOpDef, custom_op
from .dispatch.fake_context import get_ctx
from .dispatch.iterator.loops import cpu_kernel
from .dispatch.opcheck import OpCheckError, opcheck
from .dispatch.pointwise_kernels import gpu_kernel, wrap_kernel
from .dispatch.registration import (
    define,
    impl,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from .dispatch.schema import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "cpu_kernel",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "gpu_kernel",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "wrap_kernel",
]
