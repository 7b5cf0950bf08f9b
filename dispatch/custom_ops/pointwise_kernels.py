"""Interface for user-written pointwise CUDA kernels, and hooks around kernels (ATen/native/cuda/Loops.cuh).

A `TensorIterator` determines shape, dtype and strides. The author writes an elementwise function for each device: for
`cpu_kernel` on the host and for `gpu_kernel` here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.operator_entry import MAX_PLANS
from ..iterator.operand_info import OperandInfo
from ..iterator.tensor_iterator import TensorIterator
from ..structured.stub import StructuredCall, find_kernel

MAX_INPUTS = 4

_launchers: dict[Any, Callable[..., Any]] = {}


def gpu_kernel(iterator: TensorIterator, fn: Any) -> None:
    """Compute an iterator's output by a `@triton.jit` function with one scalar parameter per input.

    The function receives its arguments in the iterator's compute dtypes, floats narrower than 32 bits as float32. Its
    result is converted to the output's dtype. A Python number is passed at launch. The launch is enqueued on the
    device's current stream.

    Args:
        iterator: An iterator over CUDA tensors, with one output and one to four inputs; not a reduction.
        fn: The function; it must not read or write anything else.

    Raises:
        RuntimeError: for operands that are not on a CUDA device, for a reduction, for another number of outputs.
        TypeError: for a function that is not Triton's, or takes another number of arguments.
        NotImplementedError: for complex numbers, which Triton does not have.

    A pointwise operator for both devices::

        @triton.jit
        def hypot_of_elements(a, b):
            return tl.sqrt(a * a + b * b)

        @tt.library.custom_op("mine::hypot", mutates_args=(), device_types="cpu")
        def hypot(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
            iterator = tt.TensorIterator.binary_float_op(None, a, b)
            tt.library.cpu_kernel(iterator, np.hypot)
            return iterator.output()

        @hypot.register_kernel("cuda")
        def _(a, b):
            iterator = tt.TensorIterator.binary_float_op(None, a, b)
            tt.library.gpu_kernel(iterator, hypot_of_elements)
            return iterator.output()

        hypot.register_fake(lambda a, b: tt.TensorIterator.binary_float_op(None, a, b).output())
    """
    name = _check(iterator, fn)
    if iterator.numel == 0:
        return
    operands = iterator.operands
    key = (
        fn,
        tuple(iterator.shape),
        tuple([(tuple(o.stride_bytes), o.original_spec, o.target_dtype, o.number) for o in operands]),
        iterator.output_specs()[0],
    )
    launch = _launchers.get(key)
    if launch is None:
        if len(_launchers) >= MAX_PLANS:
            _launchers.clear()
        launch = _launchers[key] = _plan(iterator, fn, name)
    launch(*[_data_of(operand) for operand in operands])


def _check(iterator: TensorIterator, fn: Any) -> str:
    """Return the function's name. Raises an error for an iterator or a function that cannot be launched."""
    function = getattr(fn, "fn", None)
    names = getattr(fn, "arg_names", None)
    if names is None or not callable(function):
        raise TypeError(f"gpu_kernel: fn must be a triton.jit function, got {type(fn).__name__}")
    name = str(function.__name__)
    if iterator.is_reduction:
        raise RuntimeError(f"gpu_kernel: '{name}' works element by element, but the iterator is a reduction")
    if iterator.noutputs != 1 or not 1 <= iterator.ninputs <= MAX_INPUTS:
        raise RuntimeError(
            f"gpu_kernel: '{name}': expected one output and one to {MAX_INPUTS} inputs, got {iterator.noutputs} and "
            f"{iterator.ninputs}"
        )
    if len(names) != iterator.ninputs:
        raise TypeError(
            f"gpu_kernel: '{name}' takes {len(names)} arguments {list(names)}, but the iterator has "
            f"{iterator.ninputs} inputs"
        )
    for operand in iterator.operands:
        tensor = operand.tensor
        if tensor is None and operand.value is None:
            raise RuntimeError(
                f"gpu_kernel: '{name}' needs tensors and numbers, but an operand is only a spec"
            )
        if tensor is not None and not tensor.is_cuda and (operand.is_output or tensor.ndim or tensor.is_meta):
            raise RuntimeError(f"gpu_kernel: '{name}' runs on CUDA, but an operand is on {tensor.device}")
    if iterator.operands[0].tensor is None or iterator.device.type != "cuda":
        raise RuntimeError(f"gpu_kernel: '{name}' runs on CUDA, but its operands are on {iterator.device}")
    return name


def _plan(iterator: TensorIterator, fn: Any, name: str) -> Callable[..., Any]:
    names = tuple("abcd"[: iterator.ninputs])
    inputs = {
        each: operand.number if operand.tensor is None else operand.tensor._spec
        for each, operand in zip(names, iterator.inputs, strict=True)
    }
    output = iterator.output()._spec
    call = StructuredCall(name, inputs, names, (output,), iterator, output.device, {"function": fn})
    return find_kernel("gpu_kernel", "cuda", name)(call).into


def _data_of(operand: OperandInfo) -> Any:
    """Return an operand's launch argument: its memory from the iteration's start, or the number."""
    if operand.tensor is None:
        return operand.value
    data = operand.tensor._data
    return data.offset_by(operand.offset_bytes) if operand.offset_bytes else data


def wrap_kernel(
    kernel: Callable[..., Any],
    *,
    pre: Callable[..., Any] | None = None,
    post: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """Return a kernel with hooks around it, to be registered instead of it.

    Args:
        kernel: Any kernel function.
        pre: Function called with the kernel's arguments before it; a returned tuple replaces the positional ones.
        post: Function called with the kernel's result; its result, unless None, replaces the kernel's.

    Raises:
        TypeError: if `pre` returns anything but a tuple or None.

    Example:
        >>> import triten as tt
        >>> contiguous = lambda x: (x.contiguous(),)
        >>> kernel = tt.library.wrap_kernel(lambda x: x * 2, pre=contiguous, post=lambda y: y + 1)
        >>> kernel(tt.ones(2))
        tensor([3., 3.])
    """

    @functools.wraps(kernel)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if pre is not None:
            replaced = pre(*args, **kwargs)
            if isinstance(replaced, tuple):
                args = replaced
            elif replaced is not None:
                raise TypeError(
                    f"wrap_kernel: pre must return a tuple of arguments or None, got {type(replaced).__name__}"
                )
        result = kernel(*args, **kwargs)
        changed = None if post is None else post(result)
        return result if changed is None else changed

    return wrapped
