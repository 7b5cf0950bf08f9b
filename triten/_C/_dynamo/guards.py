"""Checks of tensors, and strided factories, for code that PyTorch's compiler has generated (`torch._C._dynamo.guards`).

Kernels copied from TorchInductor's output call them around their launches.
"""

from collections.abc import Sequence

from ...dispatch.generated.functions import as_strided, empty_strided
from ...dispatch.tensor import Tensor
from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "_empty_strided_cpu",
    "_empty_strided_cuda",
    "_reinterpret_tensor",
    "assert_alignment",
    "assert_size_stride",
]


def assert_size_stride(
    item: Tensor, size: tuple[int, ...], stride: tuple[int, ...], op_name: str | None = None
) -> bool:
    """Return True if a tensor has these sizes and strides.

    Empty tensors and dimensions of size 1 may have any strides.

    Args:
        item: The tensor.
        size: Its expected sizes.
        stride: Its expected strides in elements.
        op_name: Operator whose result it is, for the error. Default: None.

    Raises:
        AssertionError: A size or stride is another one.
        TypeError: An argument has another type.

    Example:
        >>> import triten as tt
        >>> tt._C._dynamo.guards.assert_size_stride(tt.ones(2, 3), (2, 3), (3, 1))
        True
    """
    if not isinstance(item, Tensor):
        raise TypeError("expected Tensor()")
    if not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise TypeError("expected tuple()")
    if not len(size) == len(stride) == item.ndim:
        raise AssertionError(f"wrong number of dimensions: expected {len(size)}, got {item.ndim}")
    is_free = item.numel() == 0
    unequal = [
        f"expected size {actual}=={expected}, stride {step}=={expected_step} at dim={dim}"
        for dim, (actual, expected, step, expected_step) in enumerate(
            zip(item.shape, size, item.stride(), stride, strict=True)
        )
        if actual != expected or (step != expected_step and expected > 1 and not is_free)
    ]
    if unequal:
        raise AssertionError("; ".join(unequal) + _of(op_name))
    return True


def assert_alignment(item: Tensor, alignment: int, op_name: str | None = None) -> bool:
    """Return True if a tensor's first element is at a multiple of `alignment` bytes in its storage.

    Args:
        item: The tensor.
        alignment: Bytes.
        op_name: Operator whose result it is, for the error. Default: None.

    Raises:
        AssertionError: It is not, or `alignment` is 0.
        TypeError: `item` is no tensor.

    Example:
        >>> import triten as tt
        >>> tt._C._dynamo.guards.assert_alignment(tt.ones(8)[4:], 16)
        True
    """
    if not isinstance(item, Tensor):
        raise TypeError("expected Tensor()")
    if alignment == 0:
        raise AssertionError("alignment cannot be 0")
    offset, itemsize = item.storage_offset(), item.element_size()
    if offset * itemsize % alignment:
        raise AssertionError(
            f"Expect the tensor to be {alignment} bytes aligned. "
            f"Fail due to storage_offset={offset} itemsize={itemsize}{_of(op_name)}"
        )
    return True


def _of(op_name: str | None) -> str:
    return "" if op_name is None else f"\nError in op: {op_name}"


def _empty_strided_cpu(size: Sequence[int], stride: Sequence[int], dtype: ScalarType) -> Tensor:
    """Return an uninitialized tensor on the CPU."""
    return empty_strided(size, stride, dtype=dtype, device="cpu")


def _empty_strided_cuda(size: Sequence[int], stride: Sequence[int], dtype: ScalarType) -> Tensor:
    """Return an uninitialized tensor on the current CUDA device."""
    return empty_strided(size, stride, dtype=dtype, device="cuda")


def _reinterpret_tensor(
    item: Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> Tensor:
    """Return a view of a tensor's storage that starts `offset_increment` elements behind its first element."""
    return as_strided(item, size, stride, item.storage_offset() + offset_increment)
