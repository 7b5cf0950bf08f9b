"""To be replaced by the full module."""

from __future__ import annotations

from typing import Any

from ...runtime import scalar_type as st
from ...runtime.memory_format import contiguous_strides, dense_strides_like
from ...runtime.tensor_spec import TensorSpec
from .type_promotion import result_type_of


class TensorIterator:
    def __init__(self, out: Any, inputs: Any, out_dtype: Any = None, to_float: bool = False) -> None:
        specs = [i for i in inputs if isinstance(i, TensorSpec)]
        sizes: tuple[int, ...] = ()
        for s in specs:
            sizes = _broadcast(sizes, s.sizes)
        common = result_type_of(inputs)
        if to_float and not (common.is_floating_point or common.is_complex):
            common = st.get_default_dtype()
        self.common_dtype = common
        device = next((s.device for s in specs if s.ndim), specs[0].device)
        strides = contiguous_strides(sizes)
        for s in specs:
            if s.sizes == sizes and not s.is_contiguous:
                strides = dense_strides_like(s.sizes, s.strides)
                break
        self.out = TensorSpec.of(sizes, strides, out_dtype or common, device)
        if out is not None:
            self.out = self.out.replace(dtype=out.dtype)

    def output_specs(self) -> list[TensorSpec]:
        return [self.out]

    @staticmethod
    def unary_op(out: Any, a: Any) -> TensorIterator:
        return TensorIterator(out, [a])

    @staticmethod
    def binary_op(out: Any, a: Any, b: Any) -> TensorIterator:
        return TensorIterator(out, [a, b])


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    n = max(len(a), len(b))
    a2, b2 = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    out = []
    for i, (x, y) in enumerate(zip(a2, b2, strict=True)):
        if x != y and 1 not in (x, y):
            raise RuntimeError(
                f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
            )
        out.append(y if x == 1 else x)
    return tuple(out)
