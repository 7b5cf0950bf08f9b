"""The meta function of `searchsorted` (ATen/native/BucketizationUtils.h)."""

from __future__ import annotations

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import bool_, int32, int64
from ....runtime.tensor_spec import TensorSpec
from ...iterator.type_promotion import result_type_of
from ..meta_base import MetaBase


def searchsorted(
    meta: MetaBase,
    sorted_sequence: TensorSpec,
    self: TensorSpec,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: TensorSpec | None,
) -> None:
    """Infer the insertion position of each value in a sorted sequence, or in the matching row of sequences.

    Stores in ``extra["right"]`` whether the position follows equal elements, and in ``extra["common"]`` the dtype of
    comparisons.
    """
    if side is not None:
        if side not in ("left", "right"):
            _refuse(f"side can only be 'left' or 'right' but got {side}")
        if right and side == "left":
            _refuse("side and right can't be set to opposites, got side of left while right was True")
    _check_devices(sorted_sequence, self, sorter)
    if sorter is not None:
        if sorter.sizes != sorted_sequence.sizes:
            _refuse(
                "boundary and sorter must have the same size, but got boundary tensor "
                f"{list(sorted_sequence.sizes)}and got sorter tensor {list(sorter.sizes)}"
            )
        if sorter.dtype is not int64:
            _refuse(f"sorter must be a tensor of long dtype but got dtype {sorter.dtype.scalar_name}")
    if self.ndim == 0 and sorted_sequence.ndim != 1:
        if sorted_sequence.ndim == 0:
            _refuse("boundaries tensor should have positive dimension, but got 0 dimension")
        _refuse(
            "input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor "
            f"dim({sorted_sequence.ndim}) and input value's dim(0) numel(1)"
        )
    if sorted_sequence.ndim == 0:
        _refuse("boundaries tensor should have positive dimension, but got 0 dimension")
    if sorted_sequence.ndim != 1 and (
        sorted_sequence.ndim != self.ndim or sorted_sequence.sizes[:-1] != self.sizes[:-1]
    ):
        _refuse(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
            f"value tensor must match, but we got boundaries tensor {list(sorted_sequence.sizes)} and input value "
            f"tensor {list(self.sizes)}"
        )
    dtype = int32 if out_int32 else int64
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.dtype is not dtype:
        _refuse(
            "output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 "
            f"flag is True, but we got output tensor's dtype {out_spec.dtype.scalar_name} and out_int32 flag is "
            f"{out_int32}"
        )
    if out_int32 and sorted_sequence.sizes[-1] >= 2**31 - 1:
        _refuse(
            "the size of boundaries' last dimension should be less than 2147483647, but we got "
            f"{sorted_sequence.sizes[-1]}"
        )
    common = result_type_of((sorted_sequence, self))
    if common is bool_ or common.is_complex:
        kernel = f"searchsorted_out_{self.device.type}"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{common.scalar_name}'")
    meta.extra["right"] = right or side == "right"
    meta.extra["common"] = common
    meta.set_output_raw_strided(
        0, self.sizes, contiguous_strides(self.sizes), dtype=dtype, device=self.device
    )


def _refuse(why: str) -> None:
    raise RuntimeError(f"torch.searchsorted(): {why}")


def _check_devices(sequence: TensorSpec, values: TensorSpec, sorter: TensorSpec | None) -> None:
    if sequence.device is not values.device:
        _refuse(
            "boundaries and input value tensors should have same device type, but got boundaries tensor device type "
            f"{sequence.device} and input value tensor device type {values.device}"
        )
    if sorter is not None and sorter.device is not sequence.device:
        _refuse(
            "sorter and boundary tensors should have same device type, but got sorter tensor device type "
            f"{sorter.device} and input value tensor device type {sequence.device}"
        )
