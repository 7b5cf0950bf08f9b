"""To be replaced by the full module."""

from __future__ import annotations

from typing import Any

from ...runtime import scalar_type as st
from ...runtime.memory_format import contiguous_strides, dense_strides_like
from ...runtime.tensor_spec import TensorSpec
from .type_promotion import category, result_type_of


class TensorIteratorConfig:
    def __init__(self) -> None:
        self.out: Any = None
        self.inputs: list[Any] = []
        self.promote = self.to_float = self.cast = self.safe = False
        self.same_dtype = True
        self.static_dtype: Any = None

    def add_output(self, out: Any) -> TensorIteratorConfig:
        self.out = out
        return self

    def add_input(self, value: Any) -> TensorIteratorConfig:
        self.inputs.append(value)
        return self

    def check_all_same_dtype(self, value: bool) -> TensorIteratorConfig:
        self.same_dtype = value
        return self

    def allow_cpu_scalars(self, value: bool) -> TensorIteratorConfig:
        return self

    def promote_inputs_to_common_dtype(self, value: bool) -> TensorIteratorConfig:
        self.promote = value
        return self

    def promote_integer_inputs_to_float(self, value: bool) -> TensorIteratorConfig:
        self.to_float = value
        return self

    def cast_common_dtype_to_outputs(self, value: bool) -> TensorIteratorConfig:
        self.cast = value
        return self

    def enforce_safe_casting_to_output(self, value: bool) -> TensorIteratorConfig:
        self.safe = value
        return self

    def declare_static_dtype_and_device(self, dtype: Any, device: Any) -> TensorIteratorConfig:
        self.static_dtype = dtype
        return self

    def build(self) -> TensorIterator:
        made = TensorIterator(self.out, self.inputs, self.static_dtype, self.to_float)
        if self.out is not None and self.safe and category(made.common_dtype) > category(self.out.dtype):
            raise RuntimeError(
                f"result type {made.common_dtype.scalar_name} can't be cast to the desired output type "
                f"{self.out.dtype.scalar_name}"
            )
        return made


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
            if s.sizes == sizes:
                if not s.is_contiguous:
                    strides = dense_strides_like(s.sizes, s.strides)
                break
        self.out = TensorSpec.of(sizes, strides, out_dtype or common, device)
        if out is not None:
            self.out = self.out.replace(dtype=out.dtype)

    def output_specs(self) -> list[TensorSpec]:
        return [self.out]

    @staticmethod
    def unary_op(out: Any, a: Any) -> TensorIterator:
        return _promoting(out, a).build()

    @staticmethod
    def unary_float_op(out: Any, a: Any) -> TensorIterator:
        return _promoting(out, a).promote_integer_inputs_to_float(True).build()

    @staticmethod
    def binary_op(out: Any, a: Any, b: Any) -> TensorIterator:
        return _promoting(out, a, b).build()

    @staticmethod
    def binary_float_op(out: Any, a: Any, b: Any) -> TensorIterator:
        return _promoting(out, a, b).promote_integer_inputs_to_float(True).build()

    @staticmethod
    def comparison_op(out: Any, a: Any, b: Any) -> TensorIterator:
        config = TensorIteratorConfig().add_output(out).add_input(a).add_input(b).promote_inputs_to_common_dtype(True)
        if out is None:
            config.declare_static_dtype_and_device(st.bool_, None)
        return config.build()


def _promoting(out: Any, *inputs: Any) -> TensorIteratorConfig:
    config = TensorIteratorConfig().add_output(out)
    for value in inputs:
        config.add_input(value)
    config.promote_inputs_to_common_dtype(True).cast_common_dtype_to_outputs(True)
    return config.enforce_safe_casting_to_output(True)


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
