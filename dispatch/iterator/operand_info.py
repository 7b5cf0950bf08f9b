"""`OperandInfo`: one operand of a TensorIterator and the decisions about it (ATen/TensorIterator.h)."""

from __future__ import annotations

from typing import TypeAlias

from ...runtime import memory_format as mf
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import dtype_of_number
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec

Operand: TypeAlias = TensorSpec | TensorImpl | type | bool | int | float | complex | None
"""A spec, a tensor, a Python number or its class, or None for an output to be allocated."""

_NUMBERS = frozenset({bool, int, float, complex})


class OperandInfo:
    """An operand, as given and as the iteration uses it.

    It has these attributes:

    - `tensor`: The given or allocated tensor, else None.
    - `original_spec`: The given spec; None for an output to be allocated and for a number.
    - `spec`: The iterated spec. If a host operand is cast, this is the spec of the dense temporary.
    - `number`: The class of a Python number, else None. `value` is the number, if given.
    - `stride_bytes`: Byte strides in iteration order, fastest dimension first.
    - `offset_bytes`: Start of a sub-iterator, in bytes from the tensor's first element.
    - `device`: The device of the memory, present or future.
    - `target_dtype`: The compute dtype, or the dtype of a new output.
    - `current_dtype`: The dtype of `spec`.
    - `is_output`, `is_const`: True if the operand is written, or is read-only.
    - `is_read_write`: True if an output is the same tensor as an input.
    - `will_resize`: True if an output has no shape yet.
    """

    __slots__ = (
        "current_dtype",
        "device",
        "is_const",
        "is_output",
        "is_read_write",
        "number",
        "offset_bytes",
        "original_spec",
        "spec",
        "stride_bytes",
        "target_dtype",
        "tensor",
        "value",
        "will_resize",
    )

    def __init__(self, operand: Operand, is_output: bool, is_const: bool = False) -> None:
        self.is_output = is_output
        self.is_const = is_const
        self.is_read_write = False
        self.will_resize = False
        self.offset_bytes = 0
        self.stride_bytes: list[int] = []
        self.tensor: TensorImpl | None = None
        self.number: type | None = None
        self.value: bool | int | float | complex | None = None
        self.device: Device | None = None
        self.target_dtype: ScalarType | None = None
        self.spec: TensorSpec | None = None
        if operand.__class__ is TensorSpec:
            self.spec = operand
        elif isinstance(operand, TensorImpl):
            self.tensor = operand
            self.spec = operand._spec
        elif isinstance(operand, TensorSpec):
            self.spec = operand
        elif operand is not None:
            self._set_number(operand, is_output)
        self.original_spec = spec = self.spec
        if spec is not None:
            self.device = spec.device
            self.target_dtype = spec.dtype
        self.current_dtype = self.target_dtype

    def _set_number(self, operand: object, is_output: bool) -> None:
        cls = operand if isinstance(operand, type) else operand.__class__
        if cls not in _NUMBERS or is_output:
            side = "an output" if is_output else "an input"
            expected = "a spec, a tensor or None" if is_output else "a spec, a tensor or a number"
            raise TypeError(f"TensorIterator: {side} must be {expected}, not {cls.__name__}")
        self.number = cls
        self.target_dtype = dtype_of_number(cls)
        if not isinstance(operand, type):
            self.value = operand  # type: ignore[assignment]

    @property
    def is_type_defined(self) -> bool:
        """True if the operand already has a dtype."""
        return self.target_dtype is not None

    @property
    def is_cast(self) -> bool:
        """True if a temporary of another dtype replaces the operand on the host."""
        original, used = self.original_spec, self.spec
        return original is not None and used is not None and used.dtype is not original.dtype

    @property
    def itemsize(self) -> int:
        """The bytes of one iterated element; 0 for a number."""
        if self.spec is not None and not self.will_resize:
            return self.spec.itemsize
        return self.target_dtype.itemsize if self.number is None and self.target_dtype is not None else 0

    def use_temporary(self, dtype: ScalarType) -> None:
        """Iterate over a temporary of another dtype, with the operand's strides if they are dense."""
        spec = self.spec
        assert spec is not None
        strides = mf.strides_for(mf.preserve_format, spec.sizes, (spec.sizes, spec.strides))
        self.spec = TensorSpec.of(spec.sizes, strides, dtype, spec.device)
        self.target_dtype = self.current_dtype = dtype

    def copy(self) -> OperandInfo:
        """Return a copy that a sub-iterator may narrow."""
        new = OperandInfo.__new__(OperandInfo)
        for name in OperandInfo.__slots__:
            setattr(new, name, getattr(self, name))
        new.stride_bytes = list(self.stride_bytes)
        return new

    def __repr__(self) -> str:
        value = self.number.__name__ if self.number is not None else repr(self.spec)
        side = "output" if self.is_output else "input"
        return f"OperandInfo({side}, {value}, stride_bytes={list(self.stride_bytes)})"
