"""Tensor queries as functions of the root, and coordinates computed from shapes alone (`torch`).

The root re-exports them. Most call the tensor's method of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from ...runtime.device import DeviceLike
from ...runtime.device import device as Device
from ...runtime.errors import Message, check, not_a_tensor
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_coo, strided
from ...runtime.scalar_type import bool_, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import Storage, TypedStorageBase
from ..core.tensor_function import numpy_named, overridable
from ..generated import functions as _ops
from ..schema.type_check import overflows
from ..tensor import Tensor
from ..tensor_data import tensor

__all__ = [
    "_assert",
    "_assert_async",
    "_assert_tensor_metadata",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_has_compatible_shallow_copy_type",
    "detach_",
    "get_device",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "numel",
    "typename",
    "unravel_index",
]


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message | None = None) -> None:
    """Raise an error of the given type unless all elements are True (`torch._check_tensor_all_with`).

    Args:
        error_type: The exception's class.
        cond: A bool tensor. On CUDA the call waits for its elements.
        message: A callable that gives the text of the error; it is called only then.

    Raises:
        TypeError: `cond` is not a bool tensor, or `message` is not callable.

    Example:
        >>> import triten as tt
        >>> tt._check_tensor_all_with(ValueError, tt.tensor([1, 2]) > 1, lambda: "too small")
        Traceback (most recent call last):
            ...
        ValueError: too small
    """
    if not is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    check(bool(cond.all().item()), message, error_type)


def _check_tensor_all(cond: Tensor, message: Message | None = None) -> None:
    """Run `_check_tensor_all_with` with RuntimeError (`torch._check_tensor_all`)."""
    _check_tensor_all_with(RuntimeError, cond, message)


@overridable
def _assert(condition: Any, message: str) -> None:
    """Run ``assert`` as a call, which a tracer records as a step (`torch._assert`).

    Args:
        condition: A bool, or a tensor of one element, that must be true.
        message: The text of the error.

    Raises:
        AssertionError: It is not.

    Example:
        >>> import triten as tt
        >>> tt._assert(tt.ones(2).sum() == 2, "two")
    """
    if not condition:
        raise AssertionError(message)


@overridable
def _assert_async(input: Tensor, assert_msg: str = "") -> None:
    """Raise if a tensor of one element is zero (`torch._assert_async`). On CUDA this waits for the element.

    Args:
        input: A tensor of one element.
        assert_msg: The text of the error. Default: a general one.

    Raises:
        RuntimeError: The element is zero, or the tensor does not have exactly one element.

    Example:
        >>> import triten as tt
        >>> tt._assert_async(tt.tensor(True))
    """
    if input.numel() != 1:
        count = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {count} is ambiguous")
    if not input.item():
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


@overridable
def _assert_tensor_metadata(
    input: Tensor,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dtype: ScalarType | None = None,
    *,
    device: DeviceLike = None,
    layout: Layout | None = None,
) -> None:
    """Raise unless a tensor has the given metadata (`torch._assert_tensor_metadata`). None accepts any.

    Args:
        input: A tensor.
        size, stride: Its sizes and strides.
        dtype, device, layout: Its dtype, device and layout.

    Raises:
        RuntimeError: The tensor has other metadata.

    Example:
        >>> import triten as tt
        >>> tt._assert_tensor_metadata(tt.ones(2, 3), [2, 3], dtype=tt.float32)
    """
    spec = input._spec
    for name, expected, actual in (
        ("sizes", None if size is None else list(size), list(spec.sizes)),
        ("strides", None if stride is None else list(stride), list(spec.strides)),
        ("dtype", dtype, spec.dtype),
        ("device", None if device is None else Device(device), spec.device),
        ("layout", layout, spec.layout),
    ):
        if expected is not None and expected != actual:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {expected}, Got: {actual}")


def is_tensor(obj: object, /) -> bool:
    """Return whether an object is a tensor (`torch.is_tensor`).

    Args:
        obj: Any object.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_tensor(tt.ones(1)), tt.is_tensor(1.0)
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object, /) -> bool:
    """Return whether an object is a tensor storage (`torch.is_storage`).

    Args:
        obj: Any object.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_storage(tt.ones(1).untyped_storage()), tt.is_storage(tt.ones(1))
        (True, False)
    """
    return isinstance(obj, Storage | TypedStorageBase)


def typename(obj: object, /) -> str:
    """Return the name of a tensor's type, or of an object's class with its module (`torch.typename`).

    Args:
        obj: Any object.

    Returns:
        A string; of a class or a function its own name.

    Example:
        >>> import triten as tt
        >>> tt.typename(tt.ones(1)), tt.typename(1)
        ('triten.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    named: Any = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"


def _checked(name: str, input: object) -> Tensor:
    if not isinstance(input, Tensor):
        raise not_a_tensor(input, name)
    return input


@numpy_named
@overridable
def numel(input: Tensor) -> int:
    """Return the number of elements of a tensor (`torch.numel`).

    Args:
        input: A tensor.

    Returns:
        The product of its sizes.

    Example:
        >>> import triten as tt
        >>> tt.numel(tt.ones(2, 3))
        6
    """
    return _checked("numel", input).numel()


@numpy_named
@overridable
def is_complex(input: Tensor) -> bool:
    """Return whether a tensor's dtype is complex (`torch.is_complex`).

    Args:
        input: A tensor.

    Returns:
        True for complex32, complex64 and complex128.

    Example:
        >>> import triten as tt
        >>> tt.is_complex(tt.tensor([1j]))
        True
    """
    return bool(_checked("is_complex", input).is_complex())


@numpy_named
@overridable
def is_floating_point(input: Tensor) -> bool:
    """Return whether a tensor's dtype is floating-point (`torch.is_floating_point`).

    Args:
        input: A tensor.

    Returns:
        True for float16, bfloat16, float32, float64 and the 8-bit floats; False for complex dtypes and the others.

    Example:
        >>> import triten as tt
        >>> tt.is_floating_point(tt.ones(1)), tt.is_floating_point(tt.tensor([1]))
        (True, False)
    """
    return bool(_checked("is_floating_point", input).is_floating_point())


@numpy_named
@overridable
def is_nonzero(input: Tensor) -> bool:
    """Return whether a tensor's only element is nonzero (`torch.is_nonzero`).

    Args:
        input: A tensor of one element.

    Returns:
        A bool.

    Raises:
        RuntimeError: `input` has no element or several.

    Example:
        >>> import triten as tt
        >>> tt.is_nonzero(tt.tensor([2.0]))
        True
    """
    return bool(_checked("is_nonzero", input).is_nonzero())


@numpy_named
@overridable
def is_conj(input: Tensor) -> bool:
    """Return False: there is no lazy conjugation, `conj` computes its result (`torch.is_conj`).

    Args:
        input: A tensor.

    Returns:
        False.

    Example:
        >>> import triten as tt
        >>> tt.is_conj(tt.tensor([1j]).conj())
        False
    """
    return bool(_checked("is_conj", input).is_conj())


@numpy_named
@overridable
def is_neg(input: Tensor) -> bool:
    """Return False: there is no lazy negation (`torch.is_neg`).

    Args:
        input: A tensor.

    Returns:
        False.

    Example:
        >>> import triten as tt
        >>> tt.is_neg(tt.tensor([1j]).conj().imag)
        False
    """
    return bool(_checked("is_neg", input).is_neg())


@numpy_named
@overridable
def is_inference(input: Tensor) -> bool:
    """Return whether a tensor was created in inference mode (`torch.is_inference`).

    Args:
        input: A tensor.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> with tt.inference_mode():
        ...     x = tt.ones(1)
        >>> tt.is_inference(x)
        True
    """
    return bool(_checked("is_inference", input).is_inference())


@numpy_named
@overridable
def is_signed(input: Tensor) -> bool:
    """Return whether a tensor's dtype can hold negative numbers (`torch.is_signed`).

    Args:
        input: A tensor.

    Returns:
        False for unsigned integers and bool, True for the others.

    Example:
        >>> import triten as tt
        >>> tt.is_signed(tt.ones(1)), tt.is_signed(tt.ones(1, dtype=tt.uint8))
        (True, False)
    """
    return bool(_checked("is_signed", input).is_signed())


@overridable
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Return whether a tensor can take another one's data (`torch._has_compatible_shallow_copy_type`).

    Subclasses override the result for ``tensor.data = from_``.

    Args:
        input: A tensor.
        from_: Another one.

    Returns:
        True if both are of one kind: dense, sparse, sparse compressed, quantized or meta.

    Example:
        >>> import triten as tt
        >>> tt._has_compatible_shallow_copy_type(tt.ones(2), tt.ones(2).to_sparse())
        False
    """
    kinds = [
        (each.is_quantized, each.is_meta, each.layout if each.layout in (strided, sparse_coo) else None)
        for each in (input, from_)
    ]
    return kinds[0] == kinds[1]


@numpy_named
@overridable
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same sizes (`torch.is_same_size`).

    Args:
        input: A tensor.
        other: Another one.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_same_size(tt.ones(2, 3), tt.ones(3, 2))
        False
    """
    return bool(_checked("is_same_size", input).is_same_size(other))


@numpy_named
@overridable
def get_device(input: Tensor) -> int:
    """Return the ordinal of a tensor's device (`torch.get_device`).

    Args:
        input: A tensor.

    Returns:
        0 for ``cuda:0``, 1 for ``cuda:1``; -1 on the host.

    Example:
        >>> import triten as tt
        >>> tt.get_device(tt.ones(1, device="cpu"))
        -1
    """
    index: int = _checked("get_device", input).get_device()
    return index


@numpy_named
@overridable
def detach_(input: Tensor) -> Tensor:
    """Detach a tensor from the graph in place (`torch.detach_`).

    Args:
        input: A tensor.

    Returns:
        `input` itself, which no longer requires grad.

    Raises:
        RuntimeError: `input` is a view.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, requires_grad=True) * 2
        >>> tt.detach_(x).requires_grad
        False
    """
    return _checked("detach_", input).detach_()


@overridable
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Convert flat indices to coordinates in an array of a shape (`torch.unravel_index`).

    Args:
        indices: A tensor of integers; out-of-range indices wrap around.
        shape: The shape: an integer, or a sequence of them.

    Returns:
        A tuple of a tensor of `indices`' shape, of dtype int64, for each dimension of the shape.

    Raises:
        TypeError: `indices` are not integers, or `shape` is anything else.
        ValueError: A size is negative.

    Example:
        >>> import triten as tt
        >>> tt.unravel_index(tt.tensor([4, 2]), (3, 2))
        (tensor([2, 1]), tensor([0, 0]))
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, int | list | tuple):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = tuple(accumulate(reversed(sizes[1:]), mul, initial=1))[::-1]
    if overflows(sizes) or overflows(steps):
        raise ValueError(f"Overflow when unpacking long long: unravel_index(): 'shape' is {sizes}")
    device = indices.device
    quotients = _ops.floor_divide(indices.unsqueeze(-1), tensor(steps, dtype=int64, device=device))
    return tuple(_ops.unbind(_ops.remainder(quotients, tensor(sizes, dtype=int64, device=device)), -1))
