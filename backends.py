"""`tt.backends`: flags of the libraries that PyTorch computes with, for those that mean something here.

``cuda`` says which implementations of attention are permitted (`torch.backends.cuda.enable_flash_sdp` and so on), for
the process; `nn.attention.sdpa_kernel` does it for a block. The state behind is `runtime/attention_backends.py`.

``cuda.matmul`` and ``cudnn.conv`` say how float32 products and convolutions are multiplied on CUDA
(`torch.backends.cuda.matmul`, `torch.backends.cudnn`); the state behind is `runtime/float32_precision.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .runtime import attention_backends as _attention
from .runtime import float32_precision as _float32

__all__ = ["cuda", "cudnn", "mps"]


class _MatrixProducts:
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


class _Convolutions:
    """``tt.backends.cudnn.conv``."""

    __slots__ = ()

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 convolutions: "tf32", "ieee", or "none", which is "ieee"."""
        return _float32.precision_of("conv")

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        _float32.set_precision("conv", precision)


class _CUDA:
    """``tt.backends.cuda``.

    Example:
        >>> import triten as tt
        >>> tt.backends.cuda.enable_flash_sdp(False)
        >>> tt.backends.cuda.flash_sdp_enabled()
        False
        >>> tt.backends.cuda.enable_flash_sdp(True)
    """

    __slots__ = ()
    matmul = _MatrixProducts()

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Permit or forbid attention by the fused operator as PyTorch's flash attention has it."""
        _attention.enable(_attention.FLASH, enabled)

    def flash_sdp_enabled(self) -> bool:
        """Whether `enable_flash_sdp` permits it."""
        return _attention.is_enabled(_attention.FLASH)

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        """Permit or forbid attention by the fused operator wherever it takes the operands."""
        _attention.enable(_attention.EFFICIENT, enabled)

    def mem_efficient_sdp_enabled(self) -> bool:
        """Whether `enable_mem_efficient_sdp` permits it."""
        return _attention.is_enabled(_attention.EFFICIENT)

    def enable_math_sdp(self, enabled: bool) -> None:
        """Permit or forbid attention by ordinary operators."""
        _attention.enable(_attention.MATH, enabled)

    def math_sdp_enabled(self) -> bool:
        """Whether `enable_math_sdp` permits it."""
        return _attention.is_enabled(_attention.MATH)

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        """Permit or forbid attention by cuDNN, which nothing here uses."""
        _attention.enable(_attention.CUDNN, enabled)

    def cudnn_sdp_enabled(self) -> bool:
        """Whether `enable_cudnn_sdp` permits it."""
        return _attention.is_enabled(_attention.CUDNN)


class _CuDNN:
    """``tt.backends.cudnn``, whose library is not used: its flag rules the convolutions that are written here.

    `enabled`, `benchmark` and `deterministic` can be set, and are what they were set to, for programs that do: the
    convolutions here are deterministic, and try no others out.

    Example:
        >>> import triten as tt
        >>> tt.backends.cudnn.deterministic = True
        >>> tt.backends.cudnn.is_available()
        False
        >>> with tt.backends.cudnn.flags(benchmark=True):
        ...     tt.backends.cudnn.benchmark
        True
        >>> tt.backends.cudnn.deterministic = False
    """

    __slots__ = ("_flags",)
    conv = _Convolutions()

    def __init__(self) -> None:
        self._flags = {"enabled": True, "benchmark": False, "deterministic": False}

    def _set(self, name: str, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"set_{name}_cudnn expects a bool, but got {type(value).__name__}")
        self._flags[name] = value

    @property
    def enabled(self) -> bool:
        """What it was set to; nothing here calls cuDNN."""
        return self._flags["enabled"]

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._set("enabled", value)

    @property
    def benchmark(self) -> bool:
        """What it was set to; a convolution's kernel is chosen by tables, not by trying."""
        return self._flags["benchmark"]

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        self._set("benchmark", value)

    @property
    def deterministic(self) -> bool:
        """What it was set to; convolutions are deterministic either way."""
        return self._flags["deterministic"]

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        self._set("deterministic", value)

    def is_available(self) -> bool:
        """Whether cuDNN computes: never."""
        return False

    def version(self) -> None:
        """cuDNN's version: none, it is not used."""
        return None

    @contextmanager
    def flags(
        self,
        enabled: bool = False,
        benchmark: bool = False,
        deterministic: bool = False,
        allow_tf32: bool = True,
    ) -> Iterator[None]:
        """A block with other flags (`torch.backends.cudnn.flags`)."""
        before, before_tf32 = dict(self._flags), self.allow_tf32
        for name, value in (("enabled", enabled), ("benchmark", benchmark), ("deterministic", deterministic)):
            self._set(name, value)
        self.allow_tf32 = allow_tf32
        try:
            yield
        finally:
            self._flags = before
            self.allow_tf32 = before_tf32

    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions of float32 may round their operands to TF32."""
        return _float32.allow_tf32_convolution()

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        _float32.set_allow_tf32_convolution(allow)


class _MPS:
    """``tt.backends.mps``: Apple's GPUs, for which there are no kernels here."""

    __slots__ = ()

    def is_available(self) -> bool:
        """Whether there is such a GPU: never one that could be used."""
        return False

    def is_built(self) -> bool:
        """Whether there are kernels for one: none."""
        return False


cuda = _CUDA()
cudnn = _CuDNN()
mps = _MPS()
