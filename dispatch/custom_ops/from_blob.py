"""Tensors over memory of an out-of-tree backend (torch::from_blob)."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.allocator import storage_size
from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..tensor import Tensor


def from_blob(
    pointer: DataPtr, sizes: Sequence[int], strides: Sequence[int] | None = None, *, dtype: ScalarType
) -> Tensor:
    """Return a tensor whose first element is at `pointer`; it keeps the pointer, whose deleter runs after it.

    Args:
        pointer: Memory of a device other than the CPU; NumPy arrays hold CPU memory (`tt.from_numpy`).
        sizes, strides: The geometry in elements. Default: contiguous.
        dtype: Dtype of the elements.

    Raises:
        TypeError: `pointer` is not a `DataPtr`.
        RuntimeError: It is host memory, sizes or strides are negative, or the memory holds fewer elements.

    Example:
        >>> import triten as tt
        >>> pointer = tt.library.DataPtr(4096, 64, tt.device("meta"))
        >>> tt.library.from_blob(pointer, (2, 4), dtype=tt.float32).stride()
        (4, 1)
    """
    if not isinstance(pointer, DataPtr):
        raise TypeError(f"from_blob(): argument 'pointer' must be DataPtr, not {type(pointer).__name__}")
    if pointer.device.type == CPU.type:
        raise RuntimeError(
            "from_blob(): tensors in host memory are made from NumPy's arrays; use from_numpy()"
        )
    sizes = tuple(sizes)
    strides = contiguous_strides(sizes) if strides is None else tuple(strides)
    if len(strides) != len(sizes) or min((*sizes, *strides), default=0) < 0:
        raise RuntimeError(
            f"from_blob(): expected as many strides as sizes, none negative, got sizes {list(sizes)} and strides "
            f"{list(strides)}"
        )
    needed = storage_size(sizes, strides) * dtype.itemsize
    if needed > pointer.nbytes:
        raise RuntimeError(
            f"from_blob(): sizes {list(sizes)} and strides {list(strides)} of {dtype} take {needed} bytes, "
            f"the memory has {pointer.nbytes}"
        )
    return Tensor.from_data(pointer, TensorSpec.of(sizes, strides, dtype, pointer.device))
