"""`TensorIteratorConfig`: an operator's settings for its iterator (ATen/TensorIterator.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.device import device as Device
from ...runtime.scalar_type import bool_
from ...runtime.scalar_type import dtype as ScalarType
from .operand_info import Operand, OperandInfo

if TYPE_CHECKING:
    from .tensor_iterator import TensorIterator


class TensorIteratorConfig:
    """Operands and flags of an iterator to be built; every method returns the config.

    Outputs come before inputs. An operand is a `TensorSpec`, a tensor, the class of a Python number (which promotes
    as a wrapped number), or None for an output to be allocated. With specs alone `build` is a pure function. With
    tensors it also checks overlap by address, and allocates and resizes outputs.

    Example:
        >>> from triten.runtime.device import CPU
        >>> from triten.runtime.scalar_type import float32, int64
        >>> from triten.runtime.tensor_spec import TensorSpec
        >>> a = TensorSpec.contiguous((2, 3), int64, CPU)
        >>> b = TensorSpec.contiguous((3,), float32, CPU)
        >>> config = TensorIteratorConfig().add_output(None).add_input(a).add_const_input(b)
        >>> config.promote_inputs_to_common_dtype(True).build().output_specs()
        [TensorSpec([2, 3], [3, 1], float32, cpu)]
    """

    __slots__ = (
        "all_same_device",
        "all_same_dtype",
        "cast_outputs",
        "cpu_scalars",
        "inputs",
        "integers_to_float",
        "linear_iteration",
        "mem_overlap",
        "outputs",
        "promote_inputs",
        "reduction",
        "resize",
        "safe_casting",
        "static_device",
        "static_dtype",
        "static_shape",
    )

    def __init__(self) -> None:
        self.outputs: list[OperandInfo] = []
        self.inputs: list[OperandInfo] = []
        self.mem_overlap = True
        self.cpu_scalars = False
        self.reduction = False
        self.resize = True
        self.all_same_dtype = True
        self.all_same_device = True
        self.safe_casting = False
        self.linear_iteration = False
        self.promote_inputs = False
        self.integers_to_float = False
        self.cast_outputs = False
        self.static_shape: tuple[int, ...] | None = None
        self.static_dtype: ScalarType | None = None
        self.static_device: Device | None = None

    def add_output(self, output: Operand) -> TensorIteratorConfig:
        """Add an output: a spec or a tensor to write to, or None for one to be allocated.

        Raises RuntimeError after the first input, TypeError for an invalid output.
        """
        if self.inputs:
            raise RuntimeError("TensorIteratorConfig: add all outputs before the first input")
        self.outputs.append(OperandInfo(output, True))
        return self

    def add_input(self, operand: Operand) -> TensorIteratorConfig:
        """Add an input: a spec, a tensor, a number or its class. Raises TypeError for anything else."""
        return self._add_input(operand, is_const=False)

    def add_const_input(self, operand: Operand) -> TensorIteratorConfig:
        """Add an input that kernels see as read-only."""
        return self._add_input(operand, is_const=True)

    def _add_input(self, operand: Operand, is_const: bool) -> TensorIteratorConfig:
        if operand is None:
            raise TypeError("TensorIteratorConfig: an input must be a spec, a tensor or a number, not None")
        self.inputs.append(OperandInfo(operand, False, is_const))
        return self

    # Python counts references: owned and borrowed operands are the same here.
    add_owned_output = add_borrowed_output = add_output
    add_owned_input = add_borrowed_input = add_input
    add_owned_const_input = add_borrowed_const_input = add_const_input

    def set_check_mem_overlap(self, value: bool) -> TensorIteratorConfig:
        """Check that outputs share no memory with themselves, nor partially with an input. Default: True."""
        self.mem_overlap = value
        return self

    def check_all_same_dtype(self, value: bool) -> TensorIteratorConfig:
        """Check that all operands have one dtype. Default: True."""
        self.all_same_dtype = value
        return self

    def check_all_same_device(self, value: bool) -> TensorIteratorConfig:
        """Check that all operands are on one device. Default: True."""
        self.all_same_device = value
        return self

    def allow_cpu_scalars(self, value: bool) -> TensorIteratorConfig:
        """Allow one 0-d host tensor among operands of another device."""
        self.cpu_scalars = value
        return self

    def is_reduction(self, value: bool) -> TensorIteratorConfig:
        """Declare a reduction: outputs have size 1 where inputs have more."""
        self.reduction = value
        return self

    def resize_outputs(self, value: bool) -> TensorIteratorConfig:
        """Resize given outputs of another shape; otherwise they take part in broadcasting. Default: True."""
        self.resize = value
        return self

    def enforce_safe_casting_to_output(self, value: bool) -> TensorIteratorConfig:
        """Check that the common dtype can be cast to each output's dtype."""
        self.safe_casting = value
        return self

    def enforce_linear_iteration(self, value: bool = True) -> TensorIteratorConfig:
        """Iterate in C order, last dimension fastest, regardless of strides."""
        self.linear_iteration = value
        return self

    def promote_inputs_to_common_dtype(self, value: bool) -> TensorIteratorConfig:
        """Compute in the common dtype of the inputs."""
        self.promote_inputs = value
        if value:
            self.all_same_dtype = False
        return self

    def promote_integer_inputs_to_float(self, value: bool) -> TensorIteratorConfig:
        """Compute in the default dtype if the common one is integral or bool.

        Raises RuntimeError unless inputs are promoted to a common dtype.
        """
        if value and not self.promote_inputs:
            raise RuntimeError(
                "promote_integer_inputs_to_float(True) needs promote_inputs_to_common_dtype(True) before it"
            )
        self.integers_to_float = value
        return self

    def cast_common_dtype_to_outputs(self, value: bool) -> TensorIteratorConfig:
        """Compute in the common dtype, then cast to the dtypes of given outputs."""
        self.cast_outputs = value
        if value:
            self.all_same_dtype = False
        return self

    def declare_static_shape(
        self, shape: Sequence[int], squash_dims: Sequence[int] = ()
    ) -> TensorIteratorConfig:
        """Iterate over this shape regardless of the operands' shapes; squashed dimensions count as size 1.

        Raises RuntimeError if outputs may be resized, or a dimension is out of range.
        """
        if self.resize:
            raise RuntimeError("resize_outputs(False) must be called before declare_static_shape(...)")
        sizes = list(shape)
        for dim in squash_dims:
            if not 0 <= dim < len(sizes):
                raise RuntimeError(f"squash_dim {dim} must be in [0, {len(sizes)}).")
            sizes[dim] = 1
        self.static_shape = tuple(sizes)
        return self

    def declare_static_dtype(self, dtype: ScalarType) -> TensorIteratorConfig:
        """Set the dtype of allocated outputs. Raises RuntimeError while operands must have the same dtype."""
        if self.all_same_dtype:
            raise RuntimeError("check_all_same_dtype(False) must be called before declare_static_dtype(...)")
        self.static_dtype = dtype
        return self

    def declare_static_device(self, device: Device) -> TensorIteratorConfig:
        """Set the device of allocated outputs."""
        self.static_device = device
        return self

    def declare_static_dtype_and_device(self, dtype: ScalarType, device: Device) -> TensorIteratorConfig:
        """Set the dtype and device of allocated outputs. Raises RuntimeError while operands must have
        the same dtype.
        """
        self.declare_static_dtype(dtype)
        return self.declare_static_device(device)

    def build(self) -> TensorIterator:
        """Build the iterator.

        Raises RuntimeError, as ATen does, for shapes that do not broadcast, several devices or dtypes, an output that
        cannot be cast to, and overlapping memory.
        """
        from .tensor_iterator import TensorIterator

        return TensorIterator(self, self.outputs, self.inputs)


def config_for(kind: str) -> TensorIteratorConfig:
    """Return the flags of a kind of operator, without operands, as ATen's macros set them.

    Kinds: ``nullary``, ``unary``, ``unary_float``, ``unary_force_boolean``, ``binary``, ``binary_float``,
    ``comparison``, ``ternary``, ``reduce``, ``reduce_two`` (two outputs). Raises ValueError for another.

    Example:
        >>> config_for("binary_float").integers_to_float
        True
    """
    config = TensorIteratorConfig()
    if kind == "nullary":
        # An empty output is not resized: https://github.com/pytorch/pytorch/issues/20342
        return config.check_all_same_dtype(False).resize_outputs(False)
    if kind == "unary":
        return config
    if kind == "unary_force_boolean":
        return config.check_all_same_dtype(False).declare_static_dtype(bool_)
    if kind in ("reduce", "reduce_two"):
        config.set_check_mem_overlap(False).resize_outputs(False).is_reduction(True)
        if kind == "reduce":
            return config.promote_inputs_to_common_dtype(True)
        return config.check_all_same_dtype(False)
    if kind not in ("unary_float", "binary", "binary_float", "comparison", "ternary"):
        raise ValueError(f"config_for(): unknown kind of operator '{kind}'")
    config.promote_inputs_to_common_dtype(True).allow_cpu_scalars(kind != "unary_float")
    if kind != "comparison":
        config.cast_common_dtype_to_outputs(True).enforce_safe_casting_to_output(True)
    return config.promote_integer_inputs_to_float(kind.endswith("_float"))
