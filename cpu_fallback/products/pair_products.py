"""Two-operand einsum contractions by one matmul or batched matmul.

The order of operations is the composite's (`dispatch/composite/einsum.py`), so results are bitwise identical.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.composite.einsum import Equation
from ...dispatch.structured.meta.views import view_strides
from ...dispatch.structured.stub import HostKernel
from ...runtime.device import CPU
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from .products import is_blas_ready, multiply_arrays, stack_product


def pair_product(a: TensorSpec, b: TensorSpec, parsed: Equation) -> HostKernel | None:
    """Return the kernel of two operands that share summed labels, or None for other equations.

    Other equations repeat a label within an operand, sum a label of one operand alone, or broadcast sizes.
    """
    (left, right), output = parsed.operands, parsed.output
    extent = dict(zip(left, a.sizes, strict=True)) | dict(zip(right, b.sizes, strict=True))
    if len(set(left)) != len(left) or len(set(right)) != len(right) or set(output) - set(extent):
        return None
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in output]
    inner = [label for label in shared if label not in output]
    rows = [label for label in left if label not in shared]
    columns = [label for label in right if label not in shared]
    if not inner or len(output) != len(batch) + len(rows) + len(columns):
        return None
    if rows and columns and max(map(output.index, columns)) < min(map(output.index, rows)):
        return _swapped(pair_product(b, a, parsed._replace(operands=(right, left))))
    if any(a.sizes[left.index(label)] != b.sizes[right.index(label)] for label in shared):
        return None
    groups = (
        ([rows, inner], [inner, columns]) if not batch else ([batch, rows, inner], [batch, inner, columns])
    )
    first, ready_a = _grouped(a, left, groups[0])
    second, ready_b = _grouped(b, right, groups[1])
    count, m, n, k = (math.prod(extent[label] for label in group) for group in (batch, rows, columns, inner))
    multiply = stack_product(count, m, k, n, ready_a, ready_b) if batch else multiply_arrays
    labels = (*batch, *rows, *columns)
    sizes = tuple([extent[label] for label in labels])
    order = tuple([labels.index(label) for label in output])
    strides = contiguous_strides(sizes)
    turned = tuple([sizes[d] for d in order]), tuple([strides[d] for d in order])
    back = tuple([order.index(d) for d in range(len(order))])
    in_order = order == back == tuple(range(len(order)))
    flat = (count, m, n) if batch else (m, n)

    def compute(values: Sequence[Any]) -> Any:
        x, y = values
        made = multiply(first(x), second(y)).reshape(sizes)
        return made if in_order else made.transpose(order)

    def into(out: Any, values: Sequence[Any]) -> None:
        x, y = values
        whole = out if in_order else out.transpose(back)
        whole.reshape(flat)[...] = multiply(first(x), second(y))

    spec = TensorSpec.of(*turned, a.dtype, CPU)
    return HostKernel((spec,), compute, into, declines=False)


def _swapped(kernel: HostKernel | None) -> HostKernel | None:
    """Return a kernel that exchanges its operands, so that the output's first labels are the rows."""
    if kernel is None:
        return None
    fresh, into = kernel.fresh, kernel.into
    assert fresh is not None and into is not None
    return kernel._replace(
        fresh=lambda value: fresh(value[::-1]), into=lambda out, value: into(out, value[::-1])
    )


def _grouped(
    spec: TensorSpec, labels: Sequence[Any], groups: Sequence[Sequence[Any]]
) -> tuple[Callable[[Any], Any], bool]:
    """Return a function that permutes and flattens dimensions to one for each group, and whether BLAS takes the
    result.
    """
    order = tuple([labels.index(label) for group in groups for label in group])
    permuted = tuple([spec.sizes[d] for d in order]), tuple([spec.strides[d] for d in order])
    sizes = tuple([math.prod(spec.sizes[labels.index(label)] for label in group) for group in groups])
    strides = view_strides(*permuted, sizes) or contiguous_strides(sizes)
    ready = is_blas_ready(TensorSpec.of(sizes, strides, spec.dtype, CPU))
    if order == tuple(range(len(order))):
        return (_itself if sizes == spec.sizes else lambda array: array.reshape(sizes)), ready
    if sizes == permuted[0]:
        return lambda array: array.transpose(order), ready
    return lambda array: array.transpose(order).reshape(sizes), ready


def _itself(array: Any) -> Any:
    return array
