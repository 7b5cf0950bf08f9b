"""Questions about tensors as functions of the root, and coordinates made of shapes alone (`torch`).

The root re-exports them. What a tensor answers itself is its method of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ...runtime.errors import Message, check, not_a_tensor
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.storage import Storage
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import numpy_named, overridable
from ..generated import functions as _ops
from ..schema import bind, parse_schema
from ..tensor import Tensor

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike
    from ...runtime.layout import layout as Layout
    from ...runtime.scalar_type import dtype as ScalarType
    from ..schema import FunctionSchema

__all__ = [
    "_assert",
    "_check_tensor_all",
    "_check_tensor_all_with",
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
    "tril_indices",
    "triu_indices",
    "typename",
    "unravel_index",
]


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message | None = None) -> None:
    """Raise an error of a type unless all elements are True (`torch._check_tensor_all_with`).

    Args:
        error_type: The exception's class.
        cond: A bool tensor. On CUDA the call waits for its elements.
        message: A callable that gives the text of the error; it is called only then.

    Raises:
        TypeError: `cond` is no tensor of bools, or `message` is no callable.

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
    """`_check_tensor_all_with` that raises RuntimeError (`torch._check_tensor_all`)."""
    _check_tensor_all_with(RuntimeError, cond, message)


@overridable
def _assert(condition: Any, message: str) -> None:
    """``assert`` as a call, which a tracer records as a step (`torch._assert`).

    Args:
        condition: What has to be true: a bool, or a tensor of one element.
        message: The text of the error.

    Raises:
        AssertionError: It is not.

    Example:
        >>> import triten as tt
        >>> tt._assert(tt.ones(2).sum() == 2, "two")
    """
    if not condition:
        raise AssertionError(message)


def is_tensor(obj: object, /) -> bool:
    """Whether an object is a tensor (`torch.is_tensor`).

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
    """Whether an object is the bytes of tensors (`torch.is_storage`).

    Args:
        obj: Any object.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_storage(tt.ones(1).untyped_storage()), tt.is_storage(tt.ones(1))
        (True, False)
    """
    return isinstance(obj, Storage)


def typename(obj: object, /) -> str:
    """The name of a tensor's type, or of an object's class with its module (`torch.typename`).

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
    """How many elements a tensor has (`torch.numel`).

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
    """Whether a tensor's dtype is complex (`torch.is_complex`).

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
    """Whether a tensor's dtype is a floating one (`torch.is_floating_point`).

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
    """Whether a tensor's only element is not zero (`torch.is_nonzero`).

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
    """Whether elements are to be conjugated when read (`torch.is_conj`): never here, `conj` computes them.

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
    """Whether elements are to be negated when read (`torch.is_neg`): never here.

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
    """Whether a tensor was made in inference mode (`torch.is_inference`).

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
    """Whether a tensor's dtype can hold negative numbers (`torch.is_signed`).

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


@numpy_named
@overridable
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same sizes (`torch.is_same_size`).

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
    """The ordinal of the device that a tensor is on (`torch.get_device`).

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
    """Take a tensor out of the graph that made it, in place (`torch.detach_`).

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


@cache
def _triangle_schema() -> FunctionSchema:
    return parse_schema("triangle(int row, int col, int offset, ScalarType dtype) -> Tensor")


def _triangle(row: int, col: int, offset: int, dtype: ScalarType, device: DeviceLike, upper: bool) -> Tensor:
    name = "triu_indices" if upper else "tril_indices"
    row, col, offset, dtype = bind(_triangle_schema(), (row, col, offset, dtype), name=name)
    for side, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{side} must be non-negative, got{size}")
    if dtype not in (int32, int64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
    ones = _ops.ones(row, col, dtype=bool_, device=device)
    if ones.is_meta:
        last = offset - 1 if upper else offset
        below = sum(min(max(i + last + 1, 0), col) for i in range(row))
        return _ops.empty(2, row * col - below if upper else below, dtype=dtype, device=ones.device)
    inside = _ops.triu(ones, offset) if upper else _ops.tril(ones, offset)
    return inside.nonzero().t().contiguous().to(dtype)


@api_boundary
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: ScalarType = int64,
    device: DeviceLike = None,
    layout: Layout | None = None,
) -> Tensor:
    """Rows and columns of a matrix's lower triangle, row by row (`torch.tril_indices`).

    Args:
        row: How many rows the matrix has.
        col: How many columns it has.
        offset: The diagonal up to which elements count: 0 is the main one, 1 the one above it, -1 the one below.
        dtype: The result's dtype, int64 or int32.
        device: The result's device; by default `tt.get_default_device()`.
        layout: The result's layout, which is `tt.strided`.

    Returns:
        A tensor of shape (2, n): the rows of n elements, and their columns.

    Raises:
        RuntimeError: A size is negative.
        NotImplementedError: `dtype` is another one.

    Example:
        >>> import triten as tt
        >>> tt.tril_indices(2, 2).tolist()
        [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(row, col, offset, dtype, device, False)


@api_boundary
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: ScalarType = int64,
    device: DeviceLike = None,
    layout: Layout | None = None,
) -> Tensor:
    """Rows and columns of a matrix's upper triangle, row by row (`torch.triu_indices`).

    Args:
        row: How many rows the matrix has.
        col: How many columns it has.
        offset: The diagonal from which on elements count: 0 is the main one, 1 the one above it, -1 the one below.
        dtype: The result's dtype, int64 or int32.
        device: The result's device; by default `tt.get_default_device()`.
        layout: The result's layout, which is `tt.strided`.

    Returns:
        A tensor of shape (2, n): the rows of n elements, and their columns.

    Raises:
        RuntimeError: A size is negative.
        NotImplementedError: `dtype` is another one.

    Example:
        >>> import triten as tt
        >>> tt.triu_indices(2, 2).tolist()
        [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle(row, col, offset, dtype, device, True)


@overridable
def unravel_index(indices: Tensor, shape: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """The coordinates, in an array of a shape, of positions in its flattened form (`torch.unravel_index`).

    Args:
        indices: A tensor of integers; those that are no positions wrap around.
        shape: The shape: an integer, a sequence of them, or a vector.

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
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    if not isinstance(shape, int | list | tuple):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices, places = indices.to(int64), []
    step = 1
    for size in reversed(sizes):
        coordinate = _ops.floor_divide(indices, step)
        places.append(_ops.remainder(coordinate, size) if size else coordinate)
        step *= size
    return tuple(reversed(places))
