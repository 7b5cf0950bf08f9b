"""`TensorIterator`: one decision about shape, dtypes, strides and order for all operands of a call.

Building is a pure function of specs; its result is remembered in plans. Dimensions are kept fastest first,
as ATen keeps them. Source: ATen/TensorIterator.cpp, stage by stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ...runtime import memory_format as mf
from ...runtime.device import device as Device
from ...runtime.scalar_type import bool_, get_default_dtype
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from .broadcast import infer_size
from .overlap import assert_no_internal_overlap
from .type_promotion import can_cast, common_dtype


class OperandInfo:
    """One operand: its spec (None for an output to be made, a class for a Python number) and what was decided.

    `stride_bytes` run in the iteration's order, fastest first; `target_dtype` is the dtype that the kernel
    reads or the output gets.
    """

    __slots__ = (
        "is_output",
        "is_read_write",
        "spec",
        "stride_bytes",
        "target_dtype",
        "tensor",
        "will_resize",
    )

    def __init__(self, operand: Any, is_output: bool) -> None:
        self.tensor: TensorImpl | None = operand if isinstance(operand, TensorImpl) else None
        self.spec: Any = operand._spec if isinstance(operand, TensorImpl) else operand
        self.is_output = is_output
        self.is_read_write = False
        self.will_resize = False
        self.target_dtype: ScalarType | None = None
        self.stride_bytes: list[int] = []

    @property
    def is_number(self) -> bool:
        """Whether the operand is a Python number."""
        return isinstance(self.spec, type)


class TensorIteratorConfig:
    """What an operator asks of its iterator; every method returns the config.

    Outputs come before inputs. Operands are specs, tensors, None (an output to be made), or the class of a
    Python number.

    Raises RuntimeError at `build()` as ATen does: shapes that do not broadcast, several devices, dtypes that
    differ or cannot be cast, overlapping outputs.
    """

    def __init__(self) -> None:
        self.operands: list[tuple[Any, bool]] = []
        self.check_mem_overlap_ = True
        self.allow_cpu_scalars_ = False
        self.is_reduction_ = False
        self.resize_outputs_ = True
        self.check_all_same_dtype_ = True
        self.check_all_same_device_ = True
        self.enforce_safe_casting_to_output_ = False
        self.enforce_linear_iteration_ = False
        self.promote_inputs_to_common_dtype_ = False
        self.promote_integer_inputs_to_float_ = False
        self.cast_common_dtype_to_outputs_ = False
        self.static_shape_: tuple[int, ...] | None = None
        self.static_dtype_: ScalarType | None = None
        self.static_device_: Device | None = None

    def add_output(self, output: Any) -> TensorIteratorConfig:
        """Add an output: a spec or tensor to write to, or None for one to be made."""
        if any(not is_output for _, is_output in self.operands):
            raise RuntimeError("TensorIteratorConfig: outputs must be added before inputs")
        self.operands.append((output, True))
        return self

    def add_input(self, operand: Any) -> TensorIteratorConfig:
        """Add an input."""
        self.operands.append((operand, False))
        return self

    add_owned_output = add_borrowed_output = add_output
    add_owned_input = add_borrowed_input = add_const_input = add_input

    def set_check_mem_overlap(self, value: bool) -> TensorIteratorConfig:
        """Refuse outputs that overlap themselves."""
        self.check_mem_overlap_ = value
        return self

    def allow_cpu_scalars(self, value: bool) -> TensorIteratorConfig:
        """Let 0-d host tensors stand beside operands of another device."""
        self.allow_cpu_scalars_ = value
        return self

    def is_reduction(self, value: bool) -> TensorIteratorConfig:
        """The operation reduces: outputs have size 1 where inputs have more."""
        self.is_reduction_ = value
        return self

    def resize_outputs(self, value: bool) -> TensorIteratorConfig:
        """Outputs of another shape are resized rather than refused."""
        self.resize_outputs_ = value
        return self

    def check_all_same_dtype(self, value: bool) -> TensorIteratorConfig:
        """Refuse operands of several dtypes."""
        self.check_all_same_dtype_ = value
        return self

    def check_all_same_device(self, value: bool) -> TensorIteratorConfig:
        """Refuse operands of several devices."""
        self.check_all_same_device_ = value
        return self

    def enforce_safe_casting_to_output(self, value: bool) -> TensorIteratorConfig:
        """Refuse an output of a lower category than the common dtype."""
        self.enforce_safe_casting_to_output_ = value
        return self

    def enforce_linear_iteration(self, value: bool = True) -> TensorIteratorConfig:
        """Iterate in C order, whatever the strides."""
        self.enforce_linear_iteration_ = value
        return self

    def promote_inputs_to_common_dtype(self, value: bool) -> TensorIteratorConfig:
        """Compute in the common dtype of the inputs."""
        self.promote_inputs_to_common_dtype_ = value
        if value:
            self.check_all_same_dtype_ = False
        return self

    def promote_integer_inputs_to_float(self, value: bool) -> TensorIteratorConfig:
        """Compute integral and bool inputs in the default floating dtype."""
        self.promote_integer_inputs_to_float_ = value
        if value and not self.promote_inputs_to_common_dtype_:
            raise RuntimeError("promote_integer_inputs_to_float needs promote_inputs_to_common_dtype")
        return self

    def cast_common_dtype_to_outputs(self, value: bool) -> TensorIteratorConfig:
        """Cast results to the dtypes that given outputs have."""
        self.cast_common_dtype_to_outputs_ = value
        if value:
            self.check_all_same_dtype_ = False
        return self

    def declare_static_shape(self, shape: Sequence[int]) -> TensorIteratorConfig:
        """Iterate over this shape; the operands' own do not count."""
        self.static_shape_ = tuple(shape)
        return self

    def declare_static_dtype(self, dtype: ScalarType) -> TensorIteratorConfig:
        """Give new outputs this dtype."""
        self.static_dtype_ = dtype
        return self

    def declare_static_device(self, device: Device) -> TensorIteratorConfig:
        """Make new outputs on this device."""
        self.static_device_ = device
        return self

    def declare_static_dtype_and_device(self, dtype: ScalarType, device: Device) -> TensorIteratorConfig:
        """Both."""
        self.static_dtype_, self.static_device_ = dtype, device
        return self

    def build(self) -> TensorIterator:
        """Decide."""
        return TensorIterator(self)


class TensorIterator:
    """The decision: `shape` and strides in iteration order, `common_dtype`, `device`, and `output_specs()`."""

    __slots__ = (
        "_out_specs",
        "all_ops_same_shape",
        "broadcast_shape",
        "common_dtype",
        "device",
        "has_coalesced_dimensions",
        "is_reduction",
        "noutputs",
        "operands",
        "perm",
        "shape",
    )

    common_dtype: ScalarType
    device: Device

    def __init__(self, config: TensorIteratorConfig) -> None:
        self.operands = [OperandInfo(operand, is_output) for operand, is_output in config.operands]
        self.noutputs = sum(o.is_output for o in self.operands)
        self.is_reduction = config.is_reduction_
        self.has_coalesced_dimensions = False
        self._out_specs: list[TensorSpec] = []
        self.mark_outputs()
        self.compute_mem_overlaps(config)
        self.compute_shape(config)
        self.mark_resize_outputs(config)
        self.compute_types(config)
        if not self.fast_set_up(config):
            self.compute_strides()
            self.reorder_dimensions(config)
            self.allocate_outputs()
            self.coalesce_dimensions()

    def mark_outputs(self) -> None:
        """Note outputs that are inputs too."""
        for out in self.outputs:
            if out.tensor is not None:
                out.is_read_write = any(i.tensor is out.tensor for i in self.inputs)

    def compute_mem_overlaps(self, config: TensorIteratorConfig) -> None:
        """Refuse outputs that overlap themselves."""
        if config.check_mem_overlap_:
            for out in self.outputs:
                if out.spec is not None:
                    assert_no_internal_overlap(out.spec)

    def compute_shape(self, config: TensorIteratorConfig) -> None:
        """Broadcast the operands' shapes; outputs that will be resized do not count."""
        if config.static_shape_ is not None:
            self.broadcast_shape = config.static_shape_
            self.all_ops_same_shape = True
            return
        shape: tuple[int, ...] | None = None
        same = True
        for operand in self.operands:
            spec = operand.spec
            if spec is None or operand.is_number or (config.resize_outputs_ and operand.is_output):
                continue
            if shape is None:
                shape = spec.sizes
            elif shape != spec.sizes:
                same = False
                shape = infer_size(shape, spec.sizes)
        self.broadcast_shape = shape if shape is not None else ()
        self.all_ops_same_shape = same

    def mark_resize_outputs(self, config: TensorIteratorConfig) -> None:
        """Note outputs of another shape, or refuse them."""
        if config.static_shape_ is not None:
            return
        for out in self.outputs:
            if out.spec is not None and out.spec.sizes != self.broadcast_shape and not self.is_reduction:
                if not config.resize_outputs_:
                    raise RuntimeError(
                        f"output with shape {list(out.spec.sizes)} doesn't match the broadcast shape "
                        f"{list(self.broadcast_shape)}"
                    )
                out.will_resize = True

    def compute_types(self, config: TensorIteratorConfig) -> None:
        """Find the device and the common dtype, and what each operand is cast to."""
        self.device = self._common_device(config)
        inputs = [o.spec for o in self.inputs]
        given = [o.spec for o in self.operands if o.spec is not None]
        if config.promote_inputs_to_common_dtype_ and inputs:
            common = common_dtype(inputs)
            if config.promote_integer_inputs_to_float_ and (common.is_integral or common is bool_):
                common = get_default_dtype()
        elif inputs or given:
            specs = [s for s in (inputs or given) if isinstance(s, TensorSpec)]
            common = specs[0].dtype if specs else common_dtype(inputs)
        elif config.static_dtype_ is not None:
            common = config.static_dtype_
        else:
            raise RuntimeError("TensorIterator: no operand names a dtype")
        if config.check_all_same_dtype_:
            for spec in given:
                if isinstance(spec, TensorSpec) and spec.dtype is not common:
                    raise RuntimeError(
                        f"Found dtype {spec.dtype.scalar_name} but expected {common.scalar_name}"
                    )
        self.common_dtype = common
        for operand in self.operands:
            if not operand.is_output:
                operand.target_dtype = common
                continue
            if operand.spec is None:
                operand.target_dtype = config.static_dtype_ or common
                continue
            operand.target_dtype = operand.spec.dtype
            unsafe = not can_cast(common, operand.spec.dtype)
            if unsafe and config.enforce_safe_casting_to_output_:
                raise RuntimeError(
                    f"result type {common.scalar_name} can't be cast to the desired output type "
                    f"{operand.spec.dtype.scalar_name}"
                )

    def _common_device(self, config: TensorIteratorConfig) -> Device:
        common = config.static_device_
        for operand in self.operands:
            spec = operand.spec
            if not isinstance(spec, TensorSpec):
                continue
            if common is None or (
                common.type == "cpu" and config.allow_cpu_scalars_ and spec.device is not common
            ):
                common = spec.device
        if common is None:
            raise RuntimeError("TensorIterator: no operand names a device")
        if config.check_all_same_device_:
            for operand in self.operands:
                spec = operand.spec
                if not isinstance(spec, TensorSpec) or spec.device is common:
                    continue
                scalar = spec.ndim == 0 and spec.device.type == "cpu" and not operand.is_output
                if not (scalar and config.allow_cpu_scalars_):
                    raise RuntimeError(
                        "Expected all tensors to be on the same device, but found at least two devices, "
                        f"{common} and {spec.device}!"
                    )
        return common

    def fast_set_up(self, config: TensorIteratorConfig) -> bool:
        """Take one shared layout where there is one: contiguous, channels-last, or the same dense strides."""
        if self.is_reduction or not self.all_ops_same_shape or config.enforce_linear_iteration_:
            return False
        specs = [o.spec for o in self.operands if isinstance(o.spec, TensorSpec) and not o.will_resize]
        sizes = self.broadcast_shape
        if not specs or any(s.sizes != sizes for s in specs):
            return False
        if all(s.is_contiguous for s in specs):
            strides = mf.contiguous_strides(sizes)
        elif all(mf.is_channels_last(s.sizes, s.strides) for s in specs):
            strides = mf.channels_last_strides(sizes)
        elif all(s.strides == specs[0].strides for s in specs) and specs[0].is_dense():
            strides = specs[0].strides
        else:
            return False
        numel = math.prod(sizes)
        self.shape = [numel] if sizes else []
        self.perm = list(range(len(sizes) - 1, -1, -1))
        self.has_coalesced_dimensions = len(sizes) > 1
        for operand in self.operands:
            if isinstance(operand.spec, TensorSpec) and not operand.will_resize:
                operand.stride_bytes = [operand.spec.itemsize] if sizes else []
            elif operand.is_number:
                operand.stride_bytes = [0] if sizes else []
            else:
                assert operand.target_dtype is not None
                operand.stride_bytes = [operand.target_dtype.itemsize] if sizes else []
        for out in self.outputs:
            self._finish_output(out, sizes, strides)
        return True

    def _finish_output(self, out: OperandInfo, sizes: tuple[int, ...], strides: Sequence[int]) -> None:
        assert out.target_dtype is not None
        if out.spec is not None and not out.will_resize:
            self._out_specs.append(out.spec)
            return
        self._out_specs.append(TensorSpec.of(tuple(sizes), tuple(strides), out.target_dtype, self.device))

    def compute_strides(self) -> None:
        """Strides in bytes over the broadcast shape, in the tensors' order of dimensions; 0 where broadcast."""
        shape = self.broadcast_shape
        rank = len(shape)
        self.shape = list(shape[::-1])
        for operand in self.operands:
            spec = operand.spec
            if operand.is_number:
                operand.stride_bytes = [0] * rank
            elif spec is not None and not operand.will_resize:
                lead = rank - spec.ndim
                strides = [0] * rank
                for i, (size, stride) in enumerate(zip(spec.sizes, spec.strides, strict=True)):
                    if not (size == 1 and shape[lead + i] != 1):
                        strides[lead + i] = stride * spec.itemsize
                operand.stride_bytes = strides[::-1]

    def reorder_dimensions(self, config: TensorIteratorConfig) -> None:
        """Order dimensions by the operands' strides, fastest first, comparing as ATen compares."""
        rank = len(self.shape)
        perm = list(range(rank))
        operands = [o.stride_bytes for o in self.operands if o.stride_bytes and not o.will_resize]
        if not config.enforce_linear_iteration_ and rank > 1:
            outputs = {id(o.stride_bytes) for o in self.outputs}

            def should_swap(dim0: int, dim1: int) -> int:
                for strides in operands:
                    stride0, stride1 = strides[dim0], strides[dim1]
                    reduced = self.is_reduction and id(strides) in outputs
                    if reduced and (stride0 == 0) != (stride1 == 0):
                        return 1 if stride1 == 0 else -1
                    if stride0 == 0 or stride1 == 0:
                        continue
                    if stride0 < stride1:
                        return -1
                    if stride0 > stride1:
                        return 1
                    if self.shape[dim0] > self.shape[dim1]:
                        return 1
                return 0

            for i in range(1, rank):
                dim1 = i
                for dim0 in range(i - 1, -1, -1):
                    comparison = should_swap(perm[dim0], perm[dim1])
                    if comparison > 0:
                        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                        dim1 = dim0
                    elif comparison < 0:
                        break
        self.perm = [rank - 1 - p for p in perm]
        self.shape = [self.shape[p] for p in perm]
        for operand in self.operands:
            if operand.stride_bytes:
                operand.stride_bytes = [operand.stride_bytes[p] for p in perm]

    def allocate_outputs(self) -> None:
        """Decide the strides of outputs to be made: dense, in the iteration's order."""
        rank = len(self.shape)
        for out in self.outputs:
            assert out.target_dtype is not None
            if out.spec is None or out.will_resize:
                running = out.target_dtype.itemsize
                out.stride_bytes = []
                for size in self.shape:
                    out.stride_bytes.append(running)
                    running *= size
                strides = [0] * rank
                for position, dim in enumerate(self.perm):
                    strides[dim] = out.stride_bytes[position] // out.target_dtype.itemsize
                if self.perm == list(range(rank - 1, -1, -1)):
                    strides = list(mf.contiguous_strides(self.broadcast_shape))
                self._finish_output(out, self.broadcast_shape, strides)
            else:
                self._finish_output(out, out.spec.sizes, out.spec.strides)

    def coalesce_dimensions(self) -> None:
        """Merge neighbouring dimensions that every operand walks in one stride."""
        if len(self.shape) <= 1:
            return
        strides = [o.stride_bytes for o in self.operands]
        shape = self.shape
        last = 0
        for dim in range(1, len(shape)):
            if shape[last] == 1 or shape[dim] == 1 or all(shape[last] * s[last] == s[dim] for s in strides):
                if shape[last] == 1:
                    for s in strides:
                        s[last] = s[dim]
                shape[last] *= shape[dim]
            else:
                last += 1
                if last != dim:
                    for s in strides:
                        s[last] = s[dim]
                    shape[last] = shape[dim]
        del shape[last + 1 :]
        for s in strides:
            del s[last + 1 :]
        self.has_coalesced_dimensions = True

    @property
    def outputs(self) -> list[OperandInfo]:
        """The operands that are written."""
        return self.operands[: self.noutputs]

    @property
    def inputs(self) -> list[OperandInfo]:
        """The operands that are only read."""
        return self.operands[self.noutputs :]

    @property
    def ninputs(self) -> int:
        """How many inputs there are."""
        return len(self.operands) - self.noutputs

    @property
    def ndim(self) -> int:
        """The number of dimensions after coalescing."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """The number of elements that are visited."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the iteration is one run over dense operands."""
        return self.numel == 1 or (
            self.ndim == 1
            and all(o.is_number or o.stride_bytes[0] == self._itemsize(o) for o in self.operands)
        )

    @staticmethod
    def _itemsize(operand: OperandInfo) -> int:
        spec: TensorSpec | None = operand.spec if isinstance(operand.spec, TensorSpec) else None
        if spec is not None:
            return spec.itemsize
        assert operand.target_dtype is not None
        return operand.target_dtype.itemsize

    def is_trivial_1d(self) -> bool:
        """Whether the iteration has one dimension."""
        return self.ndim <= 1

    def can_use_32bit_indexing(self) -> bool:
        """Whether every operand's offsets fit into 31 bits."""
        limit = (1 << 31) - 1
        if self.numel > limit:
            return False
        return all(
            sum((n - 1) * s for n, s in zip(self.shape, o.stride_bytes, strict=True)) + 1 <= limit
            for o in self.operands
            if self.shape
        )

    def ranges_32bit(self, limit: int = (1 << 31) - 1) -> Iterator[tuple[tuple[int, int], ...]]:
        """Boxes (start, size) for each dimension whose offsets fit into `limit`: the slowest dimension is halved."""
        boxes = [tuple((0, n) for n in self.shape)]
        while boxes:
            box = boxes.pop()
            extent = max(
                (
                    sum((n - 1) * s for (_, n), s in zip(box, o.stride_bytes, strict=True))
                    for o in self.operands
                ),
                default=0,
            )
            if math.prod(n for _, n in box) <= limit and extent + 1 <= limit:
                yield box
                continue
            dim = max(
                range(len(box)), key=lambda d: (box[d][1] - 1) * max(o.stride_bytes[d] for o in self.operands)
            )
            start, size = box[dim]
            half = size // 2
            boxes.append((*box[:dim], (start + half, size - half), *box[dim + 1 :]))
            boxes.append((*box[:dim], (start, half), *box[dim + 1 :]))

    def output_specs(self) -> list[TensorSpec]:
        """The specs of the outputs: as given, as they will be after a resize, or as decided."""
        return self._out_specs

    @staticmethod
    def nullary_op(out: Any) -> TensorIterator:
        """Only an output."""
        return (
            TensorIteratorConfig()
            .set_check_mem_overlap(True)
            .check_all_same_dtype(False)
            .add_output(out)
            .resize_outputs(False)
            .build()
        )

    @staticmethod
    def unary_op(out: Any, a: Any) -> TensorIterator:
        """One input, the same dtype."""
        return _pointwise(out, (a,)).build()

    @staticmethod
    def unary_float_op(out: Any, a: Any) -> TensorIterator:
        """One input; integers become floating."""
        return _pointwise(out, (a,)).promote_integer_inputs_to_float(True).build()

    @staticmethod
    def unary_force_boolean_op(out: Any, a: Any) -> TensorIterator:
        """One input, a bool output."""
        return _pointwise(out, (a,)).declare_static_dtype(bool_).enforce_safe_casting_to_output(False).build()

    @staticmethod
    def binary_op(out: Any, a: Any, b: Any) -> TensorIterator:
        """Two inputs in their common dtype."""
        return _pointwise(out, (a, b)).allow_cpu_scalars(True).build()

    borrowing_binary_op = binary_op

    @staticmethod
    def binary_float_op(out: Any, a: Any, b: Any) -> TensorIterator:
        """Two inputs in their common floating dtype."""
        return _pointwise(out, (a, b)).allow_cpu_scalars(True).promote_integer_inputs_to_float(True).build()

    @staticmethod
    def comparison_op(out: Any, a: Any, b: Any) -> TensorIterator:
        """Two inputs in their common dtype, a bool output."""
        return (
            _pointwise(out, (a, b))
            .allow_cpu_scalars(True)
            .declare_static_dtype(bool_)
            .enforce_safe_casting_to_output(False)
            .build()
        )

    @staticmethod
    def ternary_op(out: Any, a: Any, b: Any, c: Any) -> TensorIterator:
        """Three inputs in their common dtype."""
        return _pointwise(out, (a, b, c)).allow_cpu_scalars(True).build()

    @staticmethod
    def reduce_op(out: Any, a: Any) -> TensorIterator:
        """A reduction of `a` into `out`, which has size 1 where it reduces."""
        return (
            TensorIteratorConfig()
            .set_check_mem_overlap(False)
            .add_output(out)
            .add_input(a)
            .resize_outputs(False)
            .is_reduction(True)
            .promote_inputs_to_common_dtype(True)
            .build()
        )


def _pointwise(out: Any, inputs: Sequence[Any]) -> TensorIteratorConfig:
    config = TensorIteratorConfig().add_output(out)
    for operand in inputs:
        config.add_input(operand)
    return (
        config.promote_inputs_to_common_dtype(True)
        .cast_common_dtype_to_outputs(True)
        .enforce_safe_casting_to_output(True)
    )
