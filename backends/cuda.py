"""Flags of CUDA's kernels (`torch.backends.cuda`): permitted attention, precision of float32 products.

Example:
    >>> import triten as tt
    >>> tt.backends.cuda.enable_flash_sdp(False)
    >>> tt.backends.cuda.flash_sdp_enabled()
    False
    >>> tt.backends.cuda.enable_flash_sdp(True)
"""

from __future__ import annotations

from ..runtime import attention_backends as _attention
from ..runtime import float32_precision as _float32

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
]


class MatrixProducts:
    """``tt.backends.cuda.matmul``.

    Example:
        >>> import triten as tt
        >>> tt.backends.cuda.matmul.allow_tf32
        False
    """

    __slots__ = ()

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may round their operands to TF32."""
        return _float32.allow_tf32_matmul()

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        _float32.set_allow_tf32_matmul(allow)

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 products: "ieee", "tf32", or "none" for the default, "ieee"."""
        return _float32.precision_of("matmul")

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        _float32.set_precision("matmul", precision)


matmul = MatrixProducts()


def enable_flash_sdp(enabled: bool) -> None:
    """Permit or forbid attention by the fused operator as PyTorch's flash attention has it."""
    _attention.enable(_attention.FLASH, enabled)


def flash_sdp_enabled() -> bool:
    """Whether `enable_flash_sdp` permits it."""
    return _attention.is_enabled(_attention.FLASH)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Permit or forbid attention by the fused operator wherever it takes the operands."""
    _attention.enable(_attention.EFFICIENT, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether `enable_mem_efficient_sdp` permits it."""
    return _attention.is_enabled(_attention.EFFICIENT)


def enable_math_sdp(enabled: bool) -> None:
    """Permit or forbid attention by ordinary operators."""
    _attention.enable(_attention.MATH, enabled)


def math_sdp_enabled() -> bool:
    """Whether `enable_math_sdp` permits it."""
    return _attention.is_enabled(_attention.MATH)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Permit or forbid attention by cuDNN, which nothing here uses."""
    _attention.enable(_attention.CUDNN, enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether `enable_cudnn_sdp` permits it."""
    return _attention.is_enabled(_attention.CUDNN)
