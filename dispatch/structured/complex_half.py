"""Stubs with complex32 kernels; PyTorch supports complex32 in some operators only.

PyTorch's CPU moves, adds, multiplies and compares complex32 values; its CUDA kernels also compute functions of them.
Other operators are refused, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...runtime.scalar_type import complex32
from ...runtime.tensor_spec import TensorSpec
from .supported_dtypes import kernel_name

__all__ = ["BY_OUTPUT", "SCALES", "holds_complex_half", "refusal", "serves_complex_half"]

MOVING = """
    cat constant_pad_nd copy fill index index_copy index_masked index_put index_select masked_fill nonzero
    nonzero_static tril triu where zero
"""
COMPUTING = """
    _conj_physical abs add addcmul all any embedding eq index_add linalg_vector_norm mul native_dropout_backward ne neg
    normal normal_tensor randn rsub sgn std std_mean sub uniform var var_mean
"""
ON_CUDA = """
    acos acosh asin asinh atan atanh cos cosh div exp lerp log logaddexp pow prod rsqrt sigmoid sin sinh sqrt sum tan
    tanh
"""

_SERVED = frozenset(f"{name}_stub" for name in (MOVING + COMPUTING).split())
_SERVED_ON_CUDA = frozenset(f"{name}_stub" for name in ON_CUDA.split())


def serves_complex_half(stub: str, device_type: str) -> bool:
    """Return True if a stub's kernel on a device supports complex32."""
    return stub in _SERVED or (device_type == "cuda" and stub in _SERVED_ON_CUDA)


BY_OUTPUT = frozenset({"cumprod_stub", "cumsum_stub", "mean_stub", "prod_stub", "sum_stub"})
"""Stubs of reductions that cast their input to the output's dtype first."""

SCALES = frozenset({"alpha", "value"})
"""Arguments that scale a term of a sum, and must be in the range of complex32."""

CPU_KERNELS: dict[str, str] = {
    **{
        f"{name}_stub": f"{name}_vml_cpu"
        for name in ("acos", "asin", "atan", "cos", "exp", "expm1", "log", "log10", "log1p", "log2")
    },
    **{f"{name}_stub": f"{name}_vml_cpu" for name in ("sin", "sqrt", "tan", "tanh")},
    **{
        f"{name}_stub": name
        for name in (
            *("baddbmm", "bmm", "dot", "exp2", "pow", "vdot"),
            *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"),
            *("replication_pad1d", "replication_pad2d", "replication_pad3d"),
        )
    },
    **dict.fromkeys(("addbmm_stub", "addmm_stub", "mm_stub"), "addmm_impl_cpu_"),
    **dict.fromkeys(("addmv_stub", "mv_stub"), "addmv_impl_cpu"),
    **dict.fromkeys(("gather_stub", "scatter_stub", "scatter_add_stub"), "scatter_gather_tensor_cpu"),
    "addcdiv_stub": "addcdiv_cpu_out",
    "cumprod_stub": "cumprod_out_cpu",
    "cumsum_stub": "cumsum_out_cpu",
    "im2col_stub": "im2col_out_cpu",
    "lerp_stub": "lerp_kernel_scalar",
    "linalg_cholesky_ex_stub": "cholesky_cpu",
    "linalg_eig_stub": "linalg_eig_out_cpu",
    "_linalg_eigvals_stub": "linalg_eig_out_cpu",
    "linalg_householder_product_stub": "orgqr_cpu",
    "linalg_ldl_factor_ex_stub": "ldl_factor_kernel_cpu",
    "linalg_ldl_solve_stub": "ldl_solve_kernel_cpu",
    "linalg_lu_factor_ex_stub": "lu_cpu",
    "_lu_solve_stub": "linalg.lu_solve_cpu",
    "linalg_solve_triangular_stub": "triangular_solve_cpu",
    "logsumexp_stub": "exp_vml_cpu",
    "mean_stub": "sum_cpu",
    "prod_stub": "prod_out_cpu",
    "softmax_stub": "softmax_lastdim_kernel_impl",
}
"""Names of kernels in PyTorch's CPU errors for complex32, if they differ from those for other dtypes."""


def holds_complex_half(values: Iterable[Any]) -> bool:
    """Return True if any value, or any member of a list among the values, is a complex32 tensor."""
    for value in values:
        for spec in value if isinstance(value, tuple) else (value,):
            if isinstance(spec, TensorSpec) and spec.dtype is complex32:
                return True
    return False


def refusal(stub: str, operator: str, device_type: str) -> NotImplementedError:
    """Return PyTorch's error for a kernel without complex32."""
    kernel = CPU_KERNELS.get(stub) if device_type == "cpu" else None
    name = kernel or kernel_name(operator, device_type)
    return NotImplementedError(f"\"{name}\" not implemented for '{complex32.scalar_name}'")
