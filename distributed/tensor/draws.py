"""Random values of a local part, identical to those of the whole tensor.

Random values are numbered (`dispatch/structured/meta/draws.py`): the Philox counter of element i, in C order,
follows from i. A rank generates a range of elements by setting its generator to the counter of the first one.
All ranks need the same seed and offset. A Mersenne Twister has no counters, so each rank generates the whole
tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.random import default_generator_of
from ...dispatch.tensor import Tensor
from ...runtime.generator import MersenneGenerator
from .shards import compute_local_shape_and_global_offset
from .spec import DTensorSpec

__all__ = ["drawn_part"]

BLOCK = 1 << 22
"""Elements drawn at a time, of those that a part along another dimension than the first does not need all of."""

Draw = Callable[[Tensor], Tensor]
"""Gives as many numbers as a tensor has elements."""


def drawn_part(draw: Draw, local: Tensor, spec: DTensorSpec, generator: Any = None) -> Tensor:
    """Generate the random values of this rank's part of a tensor.

    Args:
        draw: Function that fills a 1-D tensor from the generator.
        local: Tensor of the part's dtype and device.
        spec: Spec of the whole tensor.
        generator: The generator. Default: the device's generator.
    """
    shape, mesh = spec.shape, spec.mesh
    if local.is_meta:
        return draw(local)
    if generator is None:
        generator = default_generator_of(local.device)
    if isinstance(generator, MersenneGenerator):
        part, offset = compute_local_shape_and_global_offset(shape, mesh, spec.placements)
        whole = draw(ops.empty(prod(shape), dtype=local.dtype, device=local.device)).view(shape)
        for dim, length in enumerate(part):
            whole = whole.narrow(dim, offset[dim], length)
        return whole.contiguous()
    first, total = generator.get_offset(), prod(shape)
    sample = draw(ops.empty(4, dtype=local.dtype, device=local.device))
    each = generator.get_offset() - first  # counters for four elements
    part, offset = compute_local_shape_and_global_offset(shape, mesh, spec.placements)
    made = sample.new_empty(part)
    if made.numel():
        row = prod(shape[1:])
        begin, rows = (offset[0], part[0]) if shape else (0, 1)
        step = rows if part[1:] == shape[1:] else max(BLOCK // max(row, 1), 1)
        for start in range(begin, begin + rows, step):
            count = min(step, begin + rows - start)
            from_ = start * row
            skipped = from_ % 4
            generator.set_offset(first + (from_ - skipped) // 4 * each)
            numbers = draw(ops.empty(skipped + count * row, dtype=local.dtype, device=local.device))[skipped:]
            values = numbers.view(count, *shape[1:]) if shape else numbers.view(())
            for dim in range(1, len(shape)):
                if part[dim] != shape[dim]:
                    values = values.narrow(dim, offset[dim], part[dim])
            if count == rows:
                made = values.contiguous()
            else:
                made.narrow(0, start - begin, count).copy_(values)
    generator.set_offset(first + -(-total * each // 4))
    return made
