"""`Tensor.float()` and its like: conversions to one dtype each (torch/_tensor.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime import scalar_type as st
from ..runtime.memory_format import memory_format as MemoryFormat
from ..runtime.memory_format import preserve_format

if TYPE_CHECKING:
    from ..runtime.tensor_impl import TensorImpl
    from .tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class CastMethods(_Base):
    """Mixin of `Tensor`: each method returns the tensor itself if it has the dtype already."""

    __slots__ = ()

    def _cast(self, dtype: st.dtype, memory_format: MemoryFormat) -> Tensor:
        tensor: Tensor = self  # type: ignore[assignment]
        if self._spec.dtype is dtype and memory_format is preserve_format:
            return tensor
        return tensor.to(dtype, memory_format=memory_format)

    def float(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As float32."""
        return self._cast(st.float32, memory_format)

    def double(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As float64."""
        return self._cast(st.float64, memory_format)

    def half(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As float16."""
        return self._cast(st.float16, memory_format)

    def bfloat16(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As bfloat16."""
        return self._cast(st.bfloat16, memory_format)

    def byte(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As uint8."""
        return self._cast(st.uint8, memory_format)

    def char(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As int8."""
        return self._cast(st.int8, memory_format)

    def short(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As int16."""
        return self._cast(st.int16, memory_format)

    def int(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As int32."""
        return self._cast(st.int32, memory_format)

    def long(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As int64."""
        return self._cast(st.int64, memory_format)

    def bool(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As bool: whether each element is nonzero."""
        return self._cast(st.bool_, memory_format)

    def cfloat(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As complex64."""
        return self._cast(st.complex64, memory_format)

    def cdouble(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """As complex128."""
        return self._cast(st.complex128, memory_format)
