"""`tl.map_elementwise` for the interpreter: the function's statements run for one group of elements after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from .batched_builder import BatchedBuilder
from .formats import numpy_type
from .reductions import tensor_of


def map_elementwise(builder: BatchedBuilder, function: Any, tensors: Any, pack: Any) -> Any:
    """Return a tensor, or a tuple of them, of a function's results for each element of tensors of one shape.

    Args:
        builder: The interpreter's builder.
        function: Function of scalars, whose conditions may differ from element to element.
        tensors: Tensors of one shape.
        pack: Number of elements that a call takes of each tensor, one after another. It returns as many of each
            result.
    """
    builder.needs_one_program()
    pack = tl.core._unwrap_if_constexpr(pack)
    arrays = [tensor.handle.data for tensor in tensors]
    types = [tensor.type.scalar for tensor in tensors]
    shape, count = arrays[0].shape, arrays[0].size
    if count % pack:
        raise ValueError(f"map_elementwise: pack must divide the number of elements, {count}, but got {pack}")
    rows = [array.reshape(-1, pack) for array in arrays]
    results: list[list[Any]] = []
    is_single = False
    for i in range(count // pack):
        scalars = [
            tl.tensor(TensorHandle(row[i, k : k + 1], type_), type_)
            for row, type_ in zip(rows, types, strict=True)
            for k in range(pack)
        ]
        result = function(*scalars)
        is_single = isinstance(result, tl.tensor)
        results.append([result] if is_single else list(result))
    if len(results[0]) % pack:
        raise ValueError(
            f"map_elementwise: expected a multiple of pack={pack} results of the function, but got {len(results[0])}"
        )
    mapped = []
    for first in range(0, len(results[0]), pack):
        type_ = results[0][first].type.scalar
        values = [each.handle.data for row in results for each in row[first : first + pack]]
        mapped.append(tensor_of(np.concatenate(values).astype(numpy_type(type_)).reshape(shape), type_))
    return mapped[0] if is_single else tl.tuple(mapped)
