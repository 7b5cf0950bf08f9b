"""`TensorIteratorBase`: the stages that turn operands and flags into an iteration (ATen/TensorIterator.cpp).

Broadcasting, dtypes, device, stride order and coalescing are pure functions of the operands' specs, so that plans can
cache the result. Dimensions are stored fastest first, as in ATen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...runtime import memory_format as mf
from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.dimname import Names, unify_from_right
from ...runtime.errors import two_devices
from ...runtime.named_spec import check_resize, check_written, named
from ...runtime.scalar_type import bool_, get_default_dtype
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from .broadcast import infer_size
from .operand_info import OperandInfo
from .overlap import assert_no_internal_overlap, check_write_overlap
from .tensor_iterator_config import TensorIteratorConfig
from .type_promotion import can_cast, result_type_of


class TensorIteratorBase:
    """Iterator state, built from a config and then read-only.

    It has these attributes:

    - `operands`: Outputs, then inputs.
    - `broadcast_shape`: The broadcast shape of all operands, in the user's dimension order.
    - `shape`: The iterated sizes, fastest first, coalesced.
    - `perm`: The user's dimension of each dimension before coalescing, fastest first. Empty after a fast
      set-up, which moves no dimension.
    - `names`: The outputs' dimension names; None if no operand has names.
    - `device`: The device of the operation.
    - `has_coalesced_dimensions`: False if `shape` is a permutation of `broadcast_shape`.
    """

    __slots__ = (
        "_common_dtype",
        "_output_specs",
        "accumulates",
        "all_ops_are_scalars",
        "all_ops_same_shape",
        "broadcast_shape",
        "device",
        "has_coalesced_dimensions",
        "is_final_output",
        "is_meta",
        "is_reduction",
        "linear_iteration",
        "names",
        "noutputs",
        "operands",
        "perm",
        "shape",
    )

    def __init__(
        self, config: TensorIteratorConfig, outputs: Sequence[OperandInfo], inputs: Sequence[OperandInfo]
    ) -> None:
        self.is_reduction = config.reduction
        self.linear_iteration = config.linear_iteration
        self.has_coalesced_dimensions = False
        self.accumulates = False
        self.is_final_output = True
        self.perm: list[int] = []
        self.populate_operands(outputs, inputs)
        self.mark_outputs()
        if config.mem_overlap:
            self.compute_mem_overlaps()
        self.names = self.compute_names(config)
        self.compute_shape(config)
        self.mark_resize_outputs(config)
        self.compute_types(config)
        if not self.fast_set_up():
            self.compute_strides(config)
            self.reorder_dimensions()
            self.allocate_or_resize_outputs()
            if not self.is_meta:
                self.coalesce_dimensions()

    def populate_operands(self, outputs: Sequence[OperandInfo], inputs: Sequence[OperandInfo]) -> None:
        """Store outputs and inputs; one meta operand makes the whole operation a meta one."""
        self.operands = [*outputs, *inputs]
        self.noutputs = len(outputs)
        self._output_specs: list[TensorSpec | None] = [None] * len(outputs)
        self.is_meta = False
        for operand in self.operands:
            if operand.spec is not None and operand.spec.is_meta:
                self.is_meta = True

    def mark_outputs(self) -> None:
        """Mark outputs that are also inputs; this is unknown for specs without tensors."""
        for out in self.operands[: self.noutputs]:
            if out.tensor is not None:
                out.is_read_write = any(out.tensor is each.tensor for each in self.operands[self.noutputs :])

    def compute_mem_overlaps(self) -> None:
        """Raise an error for outputs that overlap themselves or, for known tensors, partially overlap an input."""
        for out in self.operands[: self.noutputs]:
            if out.spec is None:
                continue
            assert_no_internal_overlap(out.spec)
            if out.tensor is not None:
                for operand in self.operands[self.noutputs :]:
                    if operand.tensor is not None:
                        check_write_overlap(out.tensor, operand.tensor)

    def compute_names(self, config: TensorIteratorConfig) -> Names | None:
        """Return the outputs' names, unified over the operands; None if no operand has names.

        Operator calls arrive without names, since the Named key has removed them. This serves iterators that a
        program builds itself. Outputs that may be resized do not take part. Reductions and operators of a static
        shape name their outputs themselves.
        """
        for operand in self.operands:
            if operand.spec is not None and operand.spec.__class__ is not TensorSpec:
                break
        else:
            return None
        if self.is_reduction or config.static_shape is not None:
            return None
        names: Names = ()
        for operand in self.operands:
            if operand.spec is not None and not (operand.is_output and config.resize):
                names = unify_from_right(names, operand.spec.names)
        return names

    def _named(self, spec: TensorSpec) -> TensorSpec:
        """Return an output's spec with the computed names. Raises RuntimeError for conflicting names."""
        if self.names is None:
            return spec
        check_written(spec, self.names)
        return named(spec, self.names)

    def compute_shape(self, config: TensorIteratorConfig) -> None:
        """Broadcast the shapes; outputs that may be resized do not take part."""
        self.all_ops_same_shape = False
        self.all_ops_are_scalars = False
        if config.static_shape is not None:
            self.broadcast_shape = config.static_shape
            return
        shape: tuple[int, ...] = ()
        same, has_scalars, has_tensors = True, False, False
        for operand in self.operands:
            if operand.is_output and config.resize:
                continue
            spec = operand.spec
            if spec is None:
                has_scalars = has_scalars or operand.number is not None
                continue
            sizes = spec.sizes
            if not sizes:
                has_scalars = True
                continue
            has_tensors = True
            if not shape:
                shape = sizes
            elif sizes != shape:
                same = False
                shape = infer_size(shape, sizes)
        self.broadcast_shape = shape
        self.all_ops_same_shape = same and not (has_scalars and has_tensors)
        self.all_ops_are_scalars = not has_tensors

    def mark_resize_outputs(self, config: TensorIteratorConfig) -> None:
        """Mark outputs that get another shape. Raises RuntimeError for those that may not be resized."""
        if config.static_shape is not None:
            return
        for out in self.operands[: self.noutputs]:
            if out.spec is None:
                out.will_resize = True
            elif out.spec.sizes != self.broadcast_shape:
                if config.resize and not out.is_read_write:
                    out.will_resize = True
                elif not self.is_reduction:
                    raise RuntimeError(
                        f"output with shape {list(out.spec.sizes)} doesn't match the broadcast shape "
                        f"{list(self.broadcast_shape)}"
                    )

    def compute_types(self, config: TensorIteratorConfig) -> None:
        """Determine the common device and dtype, check every operand against them, and mark casts."""
        device, common, undefined_outputs, mixed = self._review_operands(config)
        self.device = device
        computes = config.promote_inputs or config.cast_outputs or config.safe_casting
        if not (undefined_outputs or config.all_same_device or computes):
            self._common_dtype = None if mixed else common
            return
        if config.promote_inputs and (mixed or self.all_ops_are_scalars):
            common = result_type_of(
                operand.spec if operand.spec is not None else operand.number  # type: ignore[misc]
                for operand in self.operands[self.noutputs :]
            )
        if config.integers_to_float and common is not None and (common.is_integral or common is bool_):
            common = get_default_dtype()
        self._common_dtype = common
        self._settle_operands(config, device, common)

    def _review_operands(self, config: TensorIteratorConfig) -> tuple[Device, ScalarType | None, bool, bool]:
        """Return the first non-host device, the first input's dtype, and what is undefined or mixed."""
        device = CPU
        common: ScalarType | None = None
        output_dtype: ScalarType | None = None
        undefined_outputs = mixed_inputs = mixed_outputs = False
        for operand in self.operands:
            spec = operand.spec
            if spec is None and operand.number is None:
                operand.target_dtype = config.static_dtype
                operand.device = config.static_device
                undefined_outputs = undefined_outputs or config.static_dtype is None
                continue
            if device is CPU and spec is not None and spec.device.type != "cpu":
                device = spec.device
            if operand.is_output:
                if output_dtype is None:
                    output_dtype = operand.target_dtype
                elif operand.target_dtype is not output_dtype:
                    mixed_outputs = True
            elif common is None:
                common = operand.target_dtype
            elif operand.target_dtype is not common:
                mixed_inputs = True
        if device is CPU and config.static_device is not None and self.noutputs == len(self.operands):
            device = config.static_device
        if common is None and undefined_outputs:
            raise RuntimeError("TensorIterator: an output to be made has no dtype; declare a static one")
        if mixed_inputs and not config.promote_inputs and (undefined_outputs or config.safe_casting):
            raise RuntimeError("TensorIterator: inputs of several dtypes must be promoted to a common dtype")
        if config.all_same_dtype and (
            mixed_inputs or mixed_outputs or (output_dtype is not None and common is not output_dtype)
        ):
            expected = common if common is not None else output_dtype
            for operand in self.operands:
                dtype = operand.target_dtype
                if dtype is not None and expected is not None and dtype is not expected:
                    raise RuntimeError(f"Found dtype {dtype.scalar_name} but expected {expected.scalar_name}")
        return device, common, undefined_outputs, mixed_inputs

    def _settle_operands(
        self, config: TensorIteratorConfig, device: Device, common: ScalarType | None
    ) -> None:
        """Check devices and casts of each operand, and insert dense temporaries for host casts."""
        cpu_scalars = 0
        casts = device is CPU and not self.is_meta
        for operand in self.operands:
            spec = operand.spec
            if operand.target_dtype is None:
                operand.target_dtype = common
            if operand.device is None:
                operand.device = device
            if spec is None:
                if operand.number is not None and config.promote_inputs:
                    operand.target_dtype = operand.current_dtype = common
                continue
            if config.all_same_device and spec.device is not device and not _same(spec.device, device):
                is_cpu_scalar = not operand.is_output and not spec.ndim and spec.device.type == "cpu"
                if not (config.cpu_scalars and is_cpu_scalar):
                    raise RuntimeError(two_devices(device, spec.device))
                if cpu_scalars:
                    raise RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!")
                cpu_scalars = 1
            if spec.dtype is common or common is None:
                continue
            if operand.is_output:
                if config.safe_casting and not can_cast(common, spec.dtype):
                    raise RuntimeError(
                        f"result type {common.scalar_name} can't be cast to the desired output type "
                        f"{spec.dtype.scalar_name}"
                    )
                if config.cast_outputs and casts:
                    operand.use_temporary(common)
            elif config.promote_inputs:
                if casts:
                    operand.use_temporary(common)
                else:
                    operand.target_dtype = common

    def fast_set_up(self) -> bool:
        """Use a layout that all operands share: contiguous, channels-last, or the same dense strides."""
        if self.is_reduction or not self.all_ops_same_shape:
            return False
        shape = self.broadcast_shape
        specs = [o.spec for o in self.operands if o.spec is not None and not o.will_resize]
        if all(spec.is_contiguous for spec in specs):
            strides = mf.contiguous_strides(shape)
        elif self.linear_iteration:
            return False
        elif len(shape) == 4 and all(mf.is_channels_last(s.sizes, s.strides) for s in specs):
            strides = mf.channels_last_strides(shape)
        else:
            strides = specs[-1].strides
            if not all(s.strides == strides and s.is_dense() for s in specs):
                return False
        for i in range(self.noutputs):
            self.set_output_raw_strided(i, shape, strides)
        if len(shape) > 1:
            self.has_coalesced_dimensions = True
        self.shape = [math.prod(shape)] if shape else []
        for operand in self.operands:
            operand.stride_bytes = [operand.itemsize] if shape else []
        return True

    def compute_strides(self, config: TensorIteratorConfig) -> None:
        """Compute byte strides over the broadcast shape, in the user's dimension order; 0 for broadcast dimensions."""
        shape = self.broadcast_shape
        rank = len(shape)
        self.shape = list(shape)
        for operand in self.operands:
            spec = operand.spec
            if operand.number is not None:
                operand.stride_bytes = [0] * rank
            elif spec is not None and not operand.will_resize:
                itemsize = spec.itemsize
                if spec.sizes == shape or config.static_shape is not None:
                    operand.stride_bytes = [stride * itemsize for stride in spec.strides]
                    continue
                strides = [0] * rank
                lead = rank - spec.ndim
                for i, size in enumerate(spec.sizes, lead):
                    if size != 1 or shape[i] == 1:
                        strides[i] = spec.strides[i - lead] * itemsize
                operand.stride_bytes = strides

    def reorder_dimensions(self) -> None:
        """Order dimensions by the operands' strides, fastest first; reduced dimensions come first of all."""
        rank = len(self.shape)
        self.perm = perm = list(range(rank - 1, -1, -1))
        if rank > 1 and not self.linear_iteration:
            known = [o for o in self.operands if o.stride_bytes and not o.will_resize]
            # Insertion sort: it keeps the order of dimensions that no operand distinguishes.
            for i in range(1, rank):
                dim1 = i
                for dim0 in range(i - 1, -1, -1):
                    comparison = self._compare(perm[dim0], perm[dim1], known)
                    if comparison > 0:
                        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                        dim1 = dim0
                    elif comparison < 0:
                        break
        shape = self.shape
        self.shape = [shape[dim] for dim in perm]
        for operand in self.operands:
            strides = operand.stride_bytes
            if strides:
                operand.stride_bytes = [strides[dim] for dim in perm]

    def _compare(self, dim0: int, dim1: int, operands: Sequence[OperandInfo]) -> int:
        """Return 1 if `dim0` should come after `dim1`, -1 if before, 0 if no operand decides (ATen's should_swap)."""
        for operand in operands:
            stride0, stride1 = operand.stride_bytes[dim0], operand.stride_bytes[dim1]
            if self.is_reduction and operand.is_output and (stride0 == 0) != (stride1 == 0):
                return 1 if stride1 == 0 else -1
            if stride0 == 0 or stride1 == 0:
                continue
            if stride0 != stride1:
                return -1 if stride0 < stride1 else 1
            if self.shape[dim0] > self.shape[dim1]:
                return 1
        return 0

    def invert_perm(self, values: Sequence[int]) -> tuple[int, ...]:
        """Permute per-dimension values from iteration order to the user's order."""
        out = [0] * len(values)
        for dim, value in zip(self.perm, values, strict=True):
            out[dim] = value
        return tuple(out)

    def compatible_stride(self, itemsize: int) -> list[int]:
        """Return byte strides that are dense in iteration order."""
        strides = []
        running = itemsize
        for size in self.shape:
            strides.append(running)
            running *= size
        return strides

    def allocate_or_resize_outputs(self) -> None:
        """Set the strides of outputs without a shape to the iteration's order."""
        rank = len(self.shape)
        keeps_order = self.perm == list(range(rank - 1, -1, -1))
        for i in range(self.noutputs):
            out = self.operands[i]
            if not out.will_resize:
                self.set_output_raw_strided(i, self.broadcast_shape, ())
                continue
            itemsize = out.itemsize
            out.stride_bytes = self.compatible_stride(itemsize)
            if keeps_order:
                strides = mf.contiguous_strides(self.broadcast_shape)
            else:
                strides = tuple(stride // itemsize for stride in self.invert_perm(out.stride_bytes))
            self.set_output_raw_strided(i, self.broadcast_shape, strides)

    def set_output_raw_strided(self, index: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Set the final spec of an output: as given, or of these sizes and strides if it is allocated or resized."""
        out = self.operands[index]
        original = out.original_spec
        if original is not None and not out.will_resize:
            self._output_specs[index] = original if self.names is None else self._named(original)
            return
        assert out.target_dtype is not None and out.device is not None
        out.current_dtype = out.target_dtype
        out.spec = TensorSpec.of(sizes, strides, out.target_dtype, out.device)
        if original is None:
            self._output_specs[index] = self._named(out.spec)
            return
        check_resize(original, sizes)
        self._output_specs[index] = self._named(original.replace(sizes=sizes, strides=strides))

    def coalesce_dimensions(self) -> None:
        """Merge neighboring dimensions that every operand traverses with one stride, or of which one has size 1."""
        shape = self.shape
        if len(shape) <= 1:
            return
        strides = [operand.stride_bytes for operand in self.operands]
        last = 0
        for dim in range(1, len(shape)):
            if (
                shape[last] == 1
                or shape[dim] == 1
                or all(shape[last] * each[last] == each[dim] for each in strides)
            ):
                if shape[last] == 1:
                    for each in strides:
                        each[last] = each[dim]
                shape[last] *= shape[dim]
                continue
            last += 1
            if last != dim:
                for each in strides:
                    each[last] = each[dim]
                shape[last] = shape[dim]
        for each in (shape, *strides):
            del each[last + 1 :]
        self.has_coalesced_dimensions = True

    @property
    def outputs(self) -> list[OperandInfo]:
        """The written operands."""
        return self.operands[: self.noutputs]

    @property
    def inputs(self) -> list[OperandInfo]:
        """The read-only operands."""
        return self.operands[self.noutputs :]

    @property
    def ninputs(self) -> int:
        """The number of inputs."""
        return len(self.operands) - self.noutputs

    @property
    def ntensors(self) -> int:
        """The number of operands."""
        return len(self.operands)

    @property
    def has_common_dtype(self) -> bool:
        """True if all operands have one dtype, or are cast to one."""
        return self._common_dtype is not None

    @property
    def common_dtype(self) -> ScalarType:
        """The compute dtype. Raises RuntimeError for operands of several dtypes without a common one."""
        if self._common_dtype is None:
            raise RuntimeError("TensorIterator: the operands were not brought to a common dtype")
        return self._common_dtype

    @property
    def ndim(self) -> int:
        """The number of iterated dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """The number of iterated elements."""
        return math.prod(self.shape)

    @property
    def is_trivial_1d(self) -> bool:
        """True if the iteration has one dimension."""
        return len(self.shape) == 1

    @property
    def is_contiguous(self) -> bool:
        """True if the iteration is one run over dense operands."""
        if self.numel == 1:
            return True
        return len(self.shape) == 1 and all(o.stride_bytes[0] == o.itemsize for o in self.operands)

    def output_specs(self) -> list[TensorSpec]:
        """Return the final spec of each output: as given, resized, or computed."""
        return [spec for spec in self._output_specs if spec is not None]


def _same(a: Device, b: Device) -> bool:
    return a.type == b.type and a.resolved_index == b.resolved_index
