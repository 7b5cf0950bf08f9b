"""Flags of CUDA's kernels (`torch.backends.cuda`): permitted attention, precision of float32 products.

Example:
    >>> import triten as tt
    >>> tt.backends.cuda.enable_flash_sdp(False)
    >>> tt.backends.cuda.flash_sdp_enabled()
    False
    >>> tt.backends.cuda.enable_flash_sdp(True)
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..runtime import attention_backends as _attention
from ..runtime import float32_precision as _float32
from ..runtime.cuda import driver as _drivers
from ..runtime.cuda.devices import checked_index
from ..runtime.device import DeviceLike

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor
    from ..runtime.cuda.fourier import PlanCache

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuBLASModule",
    "cuFFTPlanCache",
    "cuFFTPlanCacheManager",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


class _Permission:
    """A flag of `cuBLASModule` that lets sums be less exact. It is kept; the sums here are float32's in any case."""

    def __init__(self, name: str, allowed: bool) -> None:
        self.name = name
        self.allowed = allowed

    def __get__(self, instance: object, owner: type | None = None) -> bool:
        return self.allowed

    def __set__(self, instance: object, allowed: bool) -> None:
        if not isinstance(allowed, bool):
            raise TypeError(f"{self.name} expects a bool, but got {type(allowed).__name__}")
        self.allowed = allowed


class cuBLASModule:
    """``tt.backends.cuda.matmul``.

    Example:
        >>> import triten as tt
        >>> tt.backends.cuda.matmul.allow_tf32
        False
    """

    __slots__ = ()

    # Sums of products are float32's on every backend, which no permission to round earlier changes.
    allow_fp16_reduced_precision_reduction = _Permission("allow_fp16_reduced_precision_reduction", True)
    allow_fp16_reduced_precision_reduction_split_k = _Permission(
        "allow_fp16_reduced_precision_reduction_split_k", True
    )
    allow_bf16_reduced_precision_reduction = _Permission("allow_bf16_reduced_precision_reduction", True)
    allow_bf16_reduced_precision_reduction_split_k = _Permission(
        "allow_bf16_reduced_precision_reduction_split_k", True
    )
    allow_fp16_accumulation = _Permission("allow_fp16_accumulation", False)

    @property
    def allow_tf32(self) -> bool:
        """True if float32 matmuls may round their operands to TF32."""
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


matmul = cuBLASModule()


def is_built() -> bool:
    """Return whether CUDA support is installed, CuPy or a simulation; a device may still be missing."""
    return _drivers.is_simulated() or importlib.util.find_spec("cupy") is not None


class cuFFTPlanCache:
    """The plans of Fourier transforms that CuPy keeps for a device, for this thread.

    A transform whose sizes, dtype and direction were seen before takes its plan from here. The simulated devices have
    none.
    """

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    def _plans(self) -> PlanCache:
        return _drivers.driver().fourier_plans(self.device_index)

    @property
    def size(self) -> int:
        """How many plans there are."""
        return self._plans().get_curr_size()

    @property
    def max_size(self) -> int:
        """How many plans are kept, the latest used; 0: none."""
        return self._plans().get_size()

    @max_size.setter
    def max_size(self, size: int) -> None:
        if size < 0:
            raise RuntimeError(f"cufft_plan_cache.max_size must not be negative, got {size}")
        self._plans().set_size(size)

    def clear(self) -> None:
        """Give all plans back."""
        self._plans().clear()


class cuFFTPlanCacheManager:
    """``tt.backends.cuda.cufft_plan_cache``: the current device's `cuFFTPlanCache`, and by ``[device]`` another's.

    Example:
        >>> import triten as tt
        >>> tt.backends.cuda.cufft_plan_cache.max_size = 32
        >>> tt.backends.cuda.cufft_plan_cache[0].max_size
        32
    """

    def __getitem__(self, device: DeviceLike) -> cuFFTPlanCache:
        try:
            return cuFFTPlanCache(checked_index(device))
        except AssertionError as error:
            raise RuntimeError(f"cufft_plan_cache: {error}") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self[None], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self[None], name, value)


cufft_plan_cache = cuFFTPlanCacheManager()


class SDPAParams(NamedTuple):
    """The operands of a `scaled_dot_product_attention`, for the questions below.

    Example:
        >>> import triten as tt
        >>> q = tt.ones(1, 2, 3, 8, dtype=tt.float16, device="cuda")
        >>> params = tt.backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
        >>> tt.backends.cuda.can_use_flash_attention(params)
        True
    """

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether flash attention takes the operands: CUDA's fused operator, 16-bit and without a mask.

    Args:
        params: The operands.
        debug: If True, warn with the reasons against it. Default: False.
    """
    taken = _fused(params)[1]
    return _answer("Flash", taken, _attention.FLASH, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether CUDA's fused operator takes the operands. See `can_use_flash_attention`."""
    taken = _fused(params)[0]
    return _answer("Memory efficient", taken, _attention.EFFICIENT, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False: triten does not use cuDNN."""
    return _answer("cuDNN", False, _attention.CUDNN, debug)


def _fused(params: SDPAParams) -> tuple[bool, bool]:
    from ..dispatch.composite.attention import takes_fused

    query, key, value, mask, dropout, _, enable_gqa = params
    return takes_fused(query, key, value, mask, dropout, enable_gqa)


def _answer(name: str, taken: bool, backend: int, debug: bool) -> bool:
    enabled = _attention.is_enabled(backend)
    if debug and not enabled:
        warnings.warn(f"{name} attention has been runtime disabled.", stacklevel=3)
    if debug and not taken:
        warnings.warn(f"{name} attention does not take these operands on their device.", stacklevel=3)
    return taken and enabled


def is_flash_attention_available() -> bool:
    """Return whether there is a device whose fused operator implements flash attention."""
    return _drivers.is_available()


def is_ck_sdpa_available() -> bool:
    """Return False: Composable Kernel is a library for AMD devices."""
    return False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow unfused attention to keep intermediate results in 16 bits instead of float32, on every device."""
    _attention.allow_reduced_math(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return the value set by `allow_fp16_bf16_reduction_math_sdp`; initially False."""
    return _attention.is_reduced_math_allowed()


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Select attention implementations by flags, with a FutureWarning. Deprecated: use `tt.nn.attention.sdpa_kernel`.

    Example:
        >>> import triten as tt, warnings
        >>> warnings.simplefilter("ignore")
        >>> with tt.backends.cuda.sdp_kernel(enable_flash=False):
        ...     tt.backends.cuda.flash_sdp_enabled()
        False
    """
    warnings.warn(
        "`backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
        "`nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=3,
    )
    before = frozenset(_attention.permitted())
    flags = {
        _attention.FLASH: enable_flash,
        _attention.MATH: enable_math,
        _attention.EFFICIENT: enable_mem_efficient,
        _attention.CUDNN: enable_cudnn,
    }
    _attention.set_enabled([backend for backend, enabled in flags.items() if enabled])
    try:
        yield
    finally:
        _attention.set_enabled(before)


def enable_flash_sdp(enabled: bool) -> None:
    """Enable or disable the fused attention operator for operands that PyTorch's flash attention takes."""
    _attention.enable(_attention.FLASH, enabled)


def flash_sdp_enabled() -> bool:
    """Return whether `enable_flash_sdp` permits flash attention."""
    return _attention.is_enabled(_attention.FLASH)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Enable or disable the fused attention operator for all operands that it takes."""
    _attention.enable(_attention.EFFICIENT, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return whether `enable_mem_efficient_sdp` permits memory-efficient attention."""
    return _attention.is_enabled(_attention.EFFICIENT)


def enable_math_sdp(enabled: bool) -> None:
    """Enable or disable attention by unfused operators."""
    _attention.enable(_attention.MATH, enabled)


def math_sdp_enabled() -> bool:
    """Return whether `enable_math_sdp` permits attention by unfused operators."""
    return _attention.is_enabled(_attention.MATH)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Enable or disable cuDNN attention, which triten does not use."""
    _attention.enable(_attention.CUDNN, enabled)


def cudnn_sdp_enabled() -> bool:
    """Return whether `enable_cudnn_sdp` permits cuDNN attention."""
    return _attention.is_enabled(_attention.CUDNN)


class _LinalgBackend(Enum):
    """Libraries of linear algebra, as PyTorch names them."""

    Default = "default"
    Cusolver = "cusolver"
    Magma = "magma"

    def __str__(self) -> str:
        return f"_LinalgBackend.{self.name}"


class _BlasBackend(Enum):
    """Libraries of matmuls, as PyTorch names them."""

    Default = "default"
    Cublas = "cublas"
    Cublaslt = "cublaslt"
    Ck = "ck"

    def __str__(self) -> str:
        return f"_BlasBackend.{self.name}"


_preferred: dict[type[Enum], Any] = {
    _LinalgBackend: _LinalgBackend.Default,
    _BlasBackend: _BlasBackend.Default,
}


def _prefer(kind: Any, supported: set[str], backend: Any) -> Any:
    if backend is not None and not isinstance(backend, kind | str):
        raise RuntimeError(
            f"Unknown input value: expected a str or {kind.__name__}, got {type(backend).__name__}"
        )
    if backend is not None:
        names = {each.value: each for each in kind}
        chosen = backend if isinstance(backend, kind) else names.get(backend.lower())
        if chosen is None:
            raise RuntimeError(f"Unknown input value {backend!r}. Choose from: {', '.join(names)}")
        if chosen.value not in supported:
            raise RuntimeError(
                f"Cannot set preferred backend to {chosen}: it is not used here. Choose from: {supported}"
            )
        _preferred[kind] = chosen
    return _preferred[kind]


def preferred_linalg_library(backend: str | _LinalgBackend | None = None) -> _LinalgBackend:
    """Return the library of linear algebra on CUDA, after setting it unless `backend` is None.

    Both "default" and "cusolver" mean cuSOLVER.

    Raises:
        RuntimeError: The library is unknown, or "magma", which is not used.

    Source: torch.backends.cuda.preferred_linalg_library.

    Example:
        >>> import triten as tt
        >>> print(tt.backends.cuda.preferred_linalg_library())
        _LinalgBackend.Default
    """
    library: _LinalgBackend = _prefer(_LinalgBackend, {"default", "cusolver"}, backend)
    return library


def preferred_blas_library(backend: str | _BlasBackend | None = None) -> _BlasBackend:
    """Return the library of matmuls on CUDA, after setting it unless `backend` is None.

    The kernels are Triton's and cuBLAS's by shape, whatever is preferred.

    Raises:
        RuntimeError: The library is unknown, or "ck", which is not used.

    Source: torch.backends.cuda.preferred_blas_library.

    Example:
        >>> import triten as tt
        >>> print(tt.backends.cuda.preferred_blas_library())
        _BlasBackend.Default
    """
    library: _BlasBackend = _prefer(_BlasBackend, {"default", "cublas", "cublaslt"}, backend)
    return library
