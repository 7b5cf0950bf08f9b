"""`Tensor.float()` and similar methods: conversions to a fixed dtype (torch/_tensor.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime import scalar_type as st
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.memory_format import preserve_format
from ...runtime.traceback_filter import hide_inner_frames

if TYPE_CHECKING:
    from ...runtime.tensor_impl import TensorImpl
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class CastMethods(_Base):
    """Mixin of `Tensor`: each method returns the tensor itself if it already has the dtype."""

    __slots__ = ()

    def _cast(self, dtype: st.dtype, memory_format: MemoryFormat) -> Tensor:
        tensor: Any = self
        if self._spec.dtype is dtype and memory_format is preserve_format:
            return tensor  # type: ignore[no-any-return]
        if memory_format is preserve_format:
            return tensor.to(dtype)  # type: ignore[no-any-return]
        try: return tensor.to(dtype, memory_format=memory_format)  # type: ignore[no-any-return]  # fmt: skip
        except BaseException:
            hide_inner_frames()
            raise

    def float(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to float32 (`torch.Tensor.float`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1, 2]).float()
            tensor([1., 2.])
        """
        return self._cast(st.float32, memory_format)

    def double(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to float64 (`torch.Tensor.double`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).double()
            tensor([1.5000], dtype=triten.float64)
        """
        return self._cast(st.float64, memory_format)

    def half(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to float16 (`torch.Tensor.half`). Numbers beyond 65504 become inf.

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).half()
            tensor([1.5000], dtype=triten.float16)
        """
        return self._cast(st.float16, memory_format)

    def bfloat16(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to bfloat16 (`torch.Tensor.bfloat16`). Mantissas are rounded to 8 bits.

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).bfloat16()
            tensor([1.5000], dtype=triten.bfloat16)
        """
        return self._cast(st.bfloat16, memory_format)

    def byte(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to uint8, truncating fractions (`torch.Tensor.byte`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.7, 2.0]).byte()
            tensor([1, 2], dtype=triten.uint8)
        """
        return self._cast(st.uint8, memory_format)

    def char(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to int8, truncating fractions (`torch.Tensor.char`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([-1.7, 2.0]).char()
            tensor([-1,  2], dtype=triten.int8)
        """
        return self._cast(st.int8, memory_format)

    def short(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to int16, truncating fractions (`torch.Tensor.short`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([-1.7, 2.0]).short()
            tensor([-1,  2], dtype=triten.int16)
        """
        return self._cast(st.int16, memory_format)

    def int(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to int32, truncating fractions (`torch.Tensor.int`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([-1.7, 2.0]).int()
            tensor([-1,  2], dtype=triten.int32)
        """
        return self._cast(st.int32, memory_format)

    def long(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to int64, truncating fractions (`torch.Tensor.long`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([-1.7, 2.0]).long()
            tensor([-1,  2])
        """
        return self._cast(st.int64, memory_format)

    def bool(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to bool: True for nonzero (`torch.Tensor.bool`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([0.0, -2.0]).bool()
            tensor([False,  True])
        """
        return self._cast(st.bool_, memory_format)

    def chalf(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to complex32 (`torch.Tensor.chalf`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).chalf()
            tensor([1.5000+0.j], dtype=triten.complex32)
        """
        return self._cast(st.complex32, memory_format)

    def cfloat(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to complex64 (`torch.Tensor.cfloat`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).cfloat()
            tensor([1.5000+0.j])
        """
        return self._cast(st.complex64, memory_format)

    def cdouble(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Convert the elements to complex128 (`torch.Tensor.cdouble`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A tensor of the same shape; the tensor itself if it is of that dtype and order already.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5]).cdouble()
            tensor([1.5000+0.j], dtype=triten.complex128)
        """
        return self._cast(st.complex128, memory_format)
