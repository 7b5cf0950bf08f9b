"""sort, topk, kthvalue, median: short lines in registers, long ones by the digits of their keys.

All are stable: of equal elements the one with the lowest index comes first, in either direction. NaN is above all
numbers, and -0.0 equals 0.0.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int64
from ..elementwise.elementwise import check_dtypes
from ..elementwise.factories import fill
from .lines import Run, over_lines
from .ordered_keys import KeyFormat, key_format
from .radix import plan_radix
from .rows import LONGEST, plan_rows
from .select import plan_select


def format_of(call: StructuredCall) -> KeyFormat:
    """Return the format of the elements. Raise NotImplementedError for dtypes without an order on the device."""
    spec = call.args["self"]
    check_dtypes(call, [spec])
    dtype: ScalarType = spec.dtype
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 1):
        raise call.refuse(spec)
    return key_format(dtype)


def through_row(call: StructuredCall, rows: int, n: int, k: int, **options: Any) -> Run:
    """Return the launch for lines that fit in registers."""
    chosen("rows in registers", "lines of {} are no longer than {}", n, LONGEST)
    run = plan_rows(call.device, rows, n, k, format_of(call), int64, **options)
    return lambda x, *outputs: run(x.address, *[out.address for out in outputs])


def sort(call: StructuredCall) -> PlannedKernel:
    """Return sorted lines, and the source indices of their elements."""
    format_ = format_of(call)
    descending: bool = call.args["descending"]

    def plan(lines: int, n: int) -> Run:
        if n <= LONGEST:
            return through_row(call, lines, n, n, descending=descending)
        chosen("by digits (radix)", "lines of {} are longer than {}", n, LONGEST)
        return plan_radix(call.device, lines, n, format_, int64, descending=descending)

    return over_lines(call, plan)


def topk(call: StructuredCall) -> PlannedKernel:
    """Return the `k` largest or smallest of each line, always sorted."""
    format_ = format_of(call)
    # A number has one element, which is selected however few are wanted.
    k: int = call.args["k"] if call.args["self"].ndim else 1
    descending: bool = call.args["largest"]

    def plan(lines: int, n: int) -> Run:
        if n <= LONGEST:
            return through_row(call, lines, n, k, descending=descending)
        chosen("selection by digits", "lines of {} are longer than {}", n, LONGEST)
        return plan_select(call.device, lines, n, k, format_, single=False, descending=descending)

    return over_lines(call, plan)


def kthvalue(call: StructuredCall) -> PlannedKernel:
    """Return the `k`-th smallest of each line."""
    format_ = format_of(call)
    k: int = call.args["k"]

    def plan(lines: int, n: int) -> Run:
        if n <= LONGEST:
            return through_row(call, lines, n, k, rank="last")
        chosen("selection by digits", "lines of {} are longer than {}", n, LONGEST)
        return plan_select(call.device, lines, n, k, format_, single=True)

    return over_lines(call, plan)


def median(call: StructuredCall) -> PlannedKernel:
    """Return the lower median of each line: NaN if there is one, or that of the numbers."""
    format_ = format_of(call)
    dtype: ScalarType = call.args["self"].dtype
    if call.extra["dim"] is None and not call.args["self"].numel:
        # NaN, as a C compiler converts it to the dtype.
        least = -(2 ** (8 * dtype.itemsize - 1)) if dtype.is_signed and dtype.itemsize >= 4 else 0
        value = float("nan") if dtype.is_floating_point else least
        number = fill(call).into
        return PlannedKernel(lambda out, _: number(out, value))
    which = "nanmedian" if call.extra["ignores_nan"] else "median"

    def plan(lines: int, n: int) -> Run:
        if n <= LONGEST:
            return through_row(call, lines, n, 1, rank=which)
        chosen("selection by digits", "lines of {} are longer than {}", n, LONGEST)
        return plan_select(call.device, lines, n, 1, format_, single=True, median=which)

    return over_lines(call, plan)


for _stub, _factory in {
    "sort_stub": sort,
    "topk_stub": topk,
    "kthvalue_stub": kthvalue,
    "median_stub": median,
}.items():
    register_stub(_stub, "cuda", _factory)
