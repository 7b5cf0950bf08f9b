"""`cpu_kernel`: run a NumPy function element by element over an iterator (ATen/native/cpu/Loops.h).

The public way to write a host kernel for a custom operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.parallel import GRAIN_SIZE, parallel_for
from ...runtime.scalar_type import dtype as ScalarType
from .tensor_iterator import TensorIterator


def cpu_kernel(iterator: TensorIterator, fn: Callable[..., Any], grain_size: int = GRAIN_SIZE) -> None:
    """Compute an iterator's outputs by ``fn(*inputs)``, called with arrays in the common dtype.

    The arrays are coalesced views of the inputs, or of copies in the common dtype if the iterator promotes them. All
    have one shape, which differs from the tensors' own. Floats narrower than 32 bits are passed as float32, so that a
    result is rounded once. Results are cast to the outputs. Floating-point errors raise no warnings.

    Args:
        iterator: A `tt.TensorIterator` over host tensors, not a reduction.
        fn: A function of as many arrays as there are inputs, which computes element by element and returns an array
            of their shape, or a tuple of them for several outputs. It may run in several threads at once.
        grain_size: Minimum number of elements per thread.

    Raises:
        RuntimeError: The iterator is a reduction, an operand is not on the host, or the number of results is wrong.

    Example:
        >>> import triten as tt
        >>> iterator = tt.TensorIterator.binary_op(None, tt.tensor([1, 2, 3]), tt.tensor([0.5]))
        >>> tt.cpu_kernel(iterator, lambda a, b: a * b + 1)
        >>> iterator.output()
        tensor([1.5000, 2.0000, 2.5000])
    """
    if iterator.is_reduction:
        raise RuntimeError("cpu_kernel works element by element; use parallel_reduce for a reduction")
    outputs, views, numel = iterator.noutputs, iterator.views(), iterator.numel
    narrow = [
        operand.target_dtype is not None and is_narrow(operand.target_dtype) for operand in iterator.inputs
    ]
    if numel == 0:
        return

    def compute(parts: list[Any]) -> None:
        with np.errstate(all="ignore"):
            inputs = [
                part.astype(np.float32) if wide else part
                for part, wide in zip(parts[outputs:], narrow, strict=True)
            ]
            results = fn(*inputs)
            if not isinstance(results, tuple):
                results = (results,)
            if len(results) != outputs:
                raise RuntimeError(f"cpu_kernel: fn returned {len(results)} results for {outputs} outputs")
            for part, result in zip(parts, results, strict=False):
                np.copyto(part, result, casting="unsafe")

    shape = views[0].shape
    axis = max(range(len(shape)), key=lambda i: shape[i])

    def compute_slice(begin: int, end: int) -> None:
        index = (*[slice(None)] * axis, slice(begin, end))
        compute([view[index] for view in views])

    parallel_for(0, shape[axis], max(grain_size * shape[axis] // numel, 1), compute_slice)
    iterator.cast_outputs()


def is_narrow(dtype: ScalarType) -> bool:
    """Return whether a dtype is computed in float32: a float of fewer bits."""
    return dtype.is_floating_point and dtype.itemsize < np.dtype(np.float32).itemsize
