"""Cases: a row of the table in one dtype and one layout, named so that a name alone runs it again, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from .arguments import T, map_leaves, shape_of
from .layouts import (
    CHANNELS_LAST,
    CONTIGUOUS,
    EXPANDED,
    LAYOUTS,
    NO_DIMENSION,
    SLICED,
    SPECIAL,
    TRANSPOSED,
    UNALIGNED,
    ZERO_SIZE,
)  # fmt: skip
from .samples import DTYPES, Sample, all_samples

FIRST_PASS, DTYPE_PASS, LAYOUT_PASS, CROSS_PASS = 0, 1, 2, 3
"""Each row once; each row in its other dtypes; in its other layouts; everything else."""


class Case(NamedTuple):
    """``operator#row/dtype/layout``; `row` counts the operator's rows from 0."""

    operator: str
    row: int
    dtype: str
    layout: str

    @property
    def name(self) -> str:
        return f"{self.operator}#{self.row}/{self.dtype}/{self.layout}"


@lru_cache(maxsize=1)
def table() -> dict[tuple[str, int], Sample]:
    """Return every row by operator and number."""
    numbered: dict[tuple[str, int], Sample] = {}
    counts: dict[str, int] = {}
    for sample in all_samples():
        row = counts[sample.operator] = counts.get(sample.operator, -1) + 1
        numbered[sample.operator, row] = sample
    return numbered


def dtypes_of(sample: Sample) -> list[str]:
    """Return the dtypes of a row, the most used first."""
    return [name for letter in sample.dtypes for name in DTYPES[letter]]


def tensors_of(sample: Sample) -> list[T]:
    """Return the descriptions of the row's tensors."""
    found: list[T] = []

    def keep(value: object) -> object:
        if isinstance(value, T):
            found.append(value)
        return value

    map_leaves([list(sample.args), list(sample.kwargs.values())], keep)
    return found


def layouts_of(sample: Sample, dtype: str) -> list[str]:
    """Return the layouts that apply to a row."""
    tensors = tensors_of(sample)
    if not tensors:
        return [CONTIGUOUS]
    ranks = [len(tensor.dims.split()) for tensor in tensors]
    fits = {
        CONTIGUOUS: True,
        TRANSPOSED: max(ranks) >= 1,
        SLICED: max(ranks) >= 1,
        UNALIGNED: True,
        EXPANDED: max(ranks) >= 2,
        CHANNELS_LAST: 4 in ranks,
        ZERO_SIZE: any("a" in tensor.dims.split() for tensor in tensors),
        NO_DIMENSION: sample.pointwise,
        SPECIAL: sample.special and dtype in DTYPES["f"],
    }
    if sample.dense:
        fits |= {SLICED: False, EXPANDED: False, ZERO_SIZE: False}
    return [layout for layout in LAYOUTS if fits[layout]]


def all_cases(dtypes: Sequence[str] = (), layouts: Sequence[str] = ()) -> Iterator[tuple[int, Case]]:
    """Yield every case with its pass, most important first; `dtypes` and `layouts` filter the cases if given."""
    ordered: list[tuple[int, int, Case]] = []
    for number, ((operator, row), sample) in enumerate(table().items()):
        for i, dtype in enumerate(dtypes_of(sample)):
            for layout in layouts_of(sample, dtype):
                first_dtype, plain = i == 0, layout == CONTIGUOUS
                rank = (
                    FIRST_PASS if first_dtype and plain
                    else DTYPE_PASS if plain
                    else LAYOUT_PASS if first_dtype
                    else CROSS_PASS
                )  # fmt: skip
                if (not dtypes or dtype in dtypes) and (not layouts or layout in layouts):
                    ordered.append((rank, number, Case(operator, row, dtype, layout)))
    ordered.sort(key=lambda item: item[:2])
    for rank, _, case in ordered:
        yield rank, case


def terms_of(sample: Sample, sizes: dict[str, int]) -> int:
    """Return the number of terms in the sum of an element of the result."""
    product = 1
    for size in shape_of(sample.terms, sizes):
        product *= size
    return product
