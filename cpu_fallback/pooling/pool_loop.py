"""LLVM IR of pooling: maxima with their indices, sums, and the gradient of maxima.

A plane has rows of `width` contiguous elements. A row of the result first reduces the rows of its windows, element by
element; LLVM vectorizes this stage. Then each result reduces its columns of the reduced row. Channels-last pooling has
only the first stage: its rows are the channels of a position.

A loop's table has the first tap of each row of the result, and then the taps' offsets in the plane and their indices.
For each column of the result it has the first column of the window and their number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...runtime.cpu.code import FloatCode
from ...runtime.cpu.object_code import loop_function

if TYPE_CHECKING:
    from .compiled import Columns

NUMBERS = ("first", "last", "rows", "width", "columns", "area", "taps", "low", "high")
"""Numbers of a part: its rows of the result, counted over all planes; the rows of a plane's result; the elements of a
row, of a row of the result, and of a plane; the number of taps; and the columns of the result, from `low` to below
`high`, whose windows are complete."""
SCATTER_NUMBERS = ("first", "last", "begin", "end", "channels", "area", "count", "slot")
"""Numbers of a part: its planes and channels, the channels of a position, the positions of a plane and of its result,
and the element of the flags that is set for an index out of range."""


class _Rows(FloatCode):
    """Body of a loop over the rows of results."""

    def __init__(self, dtype: str, planes: str, columns: Columns | None) -> None:
        super().__init__(dtype)
        self.dilation = 1 if columns is None else columns.dilation
        self.n = self.numbers("%g", NUMBERS)
        self.planes = planes
        self.offsets = self.at("i64", "%p0", self.add(self.n["rows"], "1"))
        self.indices = self.at("i64", self.offsets, self.n["taps"])
        self.starts = self.at("i64", self.indices, self.n["taps"])
        self.counts = self.at("i64", self.starts, self.n["columns"])

    @contextlib.contextmanager
    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Iterate over rows of the result: number, number in the plane, plane, first tap, end of the taps."""
        with self.loop(self.n["first"], self.n["last"]) as number:
            plane = self.new(f"sdiv i64 {number}, {self.n['rows']}")
            row = self.new(f"sub i64 {number}, {self.mul(plane, self.n['rows'])}")
            taps = self.number("%p0", row), self.number("%p0", self.add(row, "1"))
            yield number, row, self.at(self.kind, self.planes, self.mul(plane, self.n["area"])), *taps

    def tap(self, plane: str, tap: str) -> str:
        """Emit the pointer to a tap's row."""
        return self.at(self.kind, plane, self.number(self.offsets, tap))

    def over_columns(self, known: Columns, write: Callable[[str, list[str] | None], None]) -> None:
        """Emit loops over the columns of the result.

        Args:
            known: Columns of complete windows.
            write: Function of a result's column, and of the window's columns if they are known.
        """
        low, high = self.n["low"], self.n["high"]
        ranges = [("0", low), (high, self.n["columns"])] if known.count else [("0", self.n["columns"])]
        for begin, end in ranges:
            with self.loop(begin, end) as column:
                write(column, None)
        if known.count:
            before = self.mul(low, str(known.stride))
            base = self.new(f"sub i64 {self.number(self.starts, low)}, {before}")
            with self.loop(low, high) as column:
                start = self.add(base, self.mul(column, str(known.stride)))
                write(column, [self.add(start, str(j * known.dilation)) for j in range(known.count)])

    def add_rows(self, sums: str, width: str, source: str, first: str, end: str) -> None:
        """Emit the sum of the rows of a range of taps."""
        with self.loop("0", width) as w:
            self.store("0.0", sums, w)
        with self.loop(first, end) as tap:
            row = self.tap(source, tap)
            with self.loop("0", width) as w:
                added = self.new(f"fadd {self.kind} {self.value(sums, w)}, {self.value(row, w)}")
                self.store(added, sums, w)

    def added_columns(self, row: str, column: str, known: list[str] | None) -> str:
        """Emit the sum of the columns of a result's window."""
        if known is None:
            total = self.variable(self.kind, "0.0")
            with self.each_column(column) as c:
                old = self.new(f"load {self.kind}, ptr {total}")
                added = self.new(f"fadd reassoc {self.kind} {old}, {self.value(row, c)}")
                self.do(f"store {self.kind} {added}, ptr {total}")
            return self.new(f"load {self.kind}, ptr {total}")
        made = self.value(row, known[0])
        for c in known[1:]:
            made = self.new(f"fadd {self.kind} {made}, {self.value(row, c)}")
        return made

    def each_column(self, column: str) -> contextlib.AbstractContextManager[str]:
        """Iterate over the columns of a result's window."""
        start = self.number(self.starts, column)
        reach = self.mul(self.number(self.counts, column), str(self.dilation))
        return self.loop(start, self.add(start, reach), self.dilation)


def maxima_text(dtype: str, columns: Columns | None) -> str:
    """Return the loop ``loop(numbers, table, x, workspace, values, indices)``.

    The first of equal elements counts, and the last of NaNs, in the order of a window's rows and columns.

    Args:
        dtype: ``float32`` or ``float64``.
        columns: Columns of complete windows; None without the second stage.
    """
    code = _Rows(dtype, "%p1", columns)
    is_direct = columns is not None and columns.is_direct
    with code.rows() as (number, _, plane, first, end):
        to = code.mul(number, code.n["columns"])
        values, indices = code.at(code.kind, "%p3", to), code.at("i64", "%p4", to)
        best = code.tap(plane, first) if is_direct else values if columns is None else "%p2"
        places = code.number(code.indices, first) if is_direct else code.at(code.kind, "%p2", code.n["width"])
        if not is_direct:
            _larger_rows(code, best, places, plane, first, end)
        if columns is None:
            with code.loop("0", code.n["width"]) as w:
                code.store(code.new(f"sext i32 {code.value(places, w, 'i32')} to i64"), indices, w, "i64")
        else:
            window = _Window(code, best, places, is_direct)

            def write(column: str, known: list[str] | None) -> None:
                value, place = window.largest(column) if known is None else window.largest_of(known)
                code.store(value, values, column)
                code.store(code.new(f"sext i32 {place} to i64"), indices, column, "i64")

            code.over_columns(columns, write)
    return code.module("pool", 5, 3)


def _larger_rows(code: _Rows, best: str, places: str, plane: str, first: str, end: str) -> None:
    """Emit the maxima of the rows of a range of taps, and the indices of the rows that they are of."""
    width = code.n["width"]

    def row_of(tap: str) -> tuple[str, str]:
        return code.tap(plane, tap), code.new(f"trunc i64 {code.number(code.indices, tap)} to i32")

    row, index = row_of(first)
    with code.loop("0", width) as w:
        code.store(code.value(row, w), best, w)
        code.store(index, places, w, "i32")
    with code.loop(code.add(first, "1"), end) as tap:
        row, index = row_of(tap)
        with code.loop("0", width) as w:
            old = code.value(best, w), code.value(places, w, "i32")
            value, place = _later(code, (code.value(row, w), index), old)
            code.store(value, best, w)
            code.store(place, places, w, "i32")


def _later(code: FloatCode, new: tuple[str, str], old: tuple[str, str]) -> tuple[str, str]:
    """Emit the larger of two values, and its index: of equal values the old one, of NaNs the new one."""
    larger = code.new(f"fcmp ogt {code.kind} {new[0]}, {old[0]}")
    return _selected(code, code.new(f"or i1 {larger}, {_is_nan(code, new[0])}"), new, old)


def _larger(code: FloatCode, new: tuple[str, str], old: tuple[str, str]) -> tuple[str, str]:
    """Emit the larger of two values, and its index: of equal values the lower index, of NaNs the higher one."""
    (value, place), (best, at) = new, old
    above, equal = (code.new(f"fcmp {order} {code.kind} {value}, {best}") for order in ("ogt", "oeq"))
    before, behind = (code.new(f"icmp {order} i32 {place}, {at}") for order in ("slt", "sgt"))
    is_last = code.new(f"or i1 {code.new(f'fcmp ord {code.kind} {best}, {best}')}, {behind}")
    ties = code.new(f"and i1 {equal}, {before}")
    nans = code.new(f"and i1 {_is_nan(code, value)}, {is_last}")
    return _selected(code, code.new(f"or i1 {code.new(f'or i1 {above}, {ties}')}, {nans}"), new, old)


def _is_nan(code: FloatCode, value: str) -> str:
    return code.new(f"fcmp uno {code.kind} {value}, {value}")


def _selected(code: FloatCode, mask: str, new: tuple[str, str], old: tuple[str, str]) -> tuple[str, str]:
    """Emit the choice between two values and their indices."""
    value, place = (
        code.new(f"select i1 {mask}, {kind} {a}, {kind} {b}")
        for kind, a, b in zip((code.kind, "i32"), new, old, strict=True)
    )
    return value, place


class _Window:
    """Columns of a window, which the second stage reduces.

    Args:
        code: The function.
        best: Pointer to the maxima of the columns.
        places: Pointer to the indices of their rows; the index of the only row if `is_direct`.
        is_direct: True if the windows have one row.
    """

    def __init__(self, code: _Rows, best: str, places: str, is_direct: bool) -> None:
        self.code, self.best, self.places, self.is_direct = code, best, places, is_direct
        self.larger = _later if is_direct else _larger

    def column(self, c: str) -> tuple[str, str]:
        """Emit the maximum of a column and its index."""
        code = self.code
        if self.is_direct:
            return code.value(self.best, c), code.new(f"trunc i64 {code.add(self.places, c)} to i32")
        row = code.value(self.places, c, "i32")
        return code.value(self.best, c), code.new(f"add i32 {row}, {code.new(f'trunc i64 {c} to i32')}")

    def largest_of(self, columns: list[str]) -> tuple[str, str]:
        """Emit the maximum of known columns and its index."""
        made = self.column(columns[0])
        for c in columns[1:]:
            made = self.larger(self.code, self.column(c), made)
        return made

    def largest(self, column: str) -> tuple[str, str]:
        """Emit the maximum of the columns of a result's window and its index."""
        if self.is_direct:
            return self._largest_of_line(column)
        code, kinds = self.code, (self.code.kind, "i32")
        initial = self.column(code.number(code.starts, column))
        kept = [code.variable(kind, value) for kind, value in zip(kinds, initial, strict=True)]

        def loaded() -> tuple[str, str]:
            value, place = (
                code.new(f"load {kind}, ptr {each}") for kind, each in zip(kinds, kept, strict=True)
            )
            return value, place

        with code.each_column(column) as c:
            made = self.larger(code, self.column(c), loaded())
            for kind, value, each in zip(kinds, made, kept, strict=True):
                code.do(f"store {kind} {value}, ptr {each}")
        return loaded()

    def _largest_of_line(self, column: str) -> tuple[str, str]:
        """Emit the maximum of a window of one row and its index: of integers in the order of floats, in two passes.

        LLVM vectorizes both, while it computes a maximum with an index one element at a time.
        """
        code, kind = self.code, self.code.kind
        word, size = ("i32", 32) if kind == "float" else ("i64", 64)
        most, least = str(2 ** (size - 1) - 1), str(-(2 ** (size - 1)))

        def key(c: str) -> str:
            value = code.new(f"fadd {kind} {code.value(self.best, c)}, 0.0")  # no negative zero
            bits = code.new(f"bitcast {kind} {value} to {word}")
            mask = code.new(f"and {word} {code.new(f'ashr {word} {bits}, {size - 1}')}, {most}")
            ordered = code.new(f"xor {word} {bits}, {mask}")
            return code.new(f"select i1 {_is_nan(code, value)}, {word} {most}, {word} {ordered}")

        def keep(variable: str, order: str, kind: str, value: str) -> None:
            old = code.new(f"load {kind}, ptr {variable}")
            wins = code.new(f"icmp {order} {kind} {value}, {old}")
            code.do(
                f"store {kind} {code.new(f'select i1 {wins}, {kind} {value}, {kind} {old}')}, ptr {variable}"
            )

        best = code.variable(word, least)
        with code.each_column(column) as c:
            keep(best, "sgt", word, key(c))
        largest = code.new(f"load {word}, ptr {best}")
        bounds = {"slt": str(2**31 - 1), "sgt": "-1"}
        found = {order: code.variable("i32", bound) for order, bound in bounds.items()}
        with code.each_column(column) as c:
            is_largest = code.new(f"icmp eq {word} {key(c)}, {largest}")
            at = code.new(f"trunc i64 {c} to i32")
            for order, bound in bounds.items():
                keep(found[order], order, "i32", code.new(f"select i1 {is_largest}, i32 {at}, i32 {bound}"))
        first, last = (code.new(f"load i32, ptr {each}") for each in found.values())
        is_nan = code.new(f"icmp eq {word} {largest}, {most}")
        return self.column(
            code.new(f"sext i32 {code.new(f'select i1 {is_nan}, i32 {last}, i32 {first}')} to i64")
        )


def sums_text(dtype: str, columns: Columns | None, divides: bool) -> str:
    """Return the loop ``loop(numbers, table, divisors, x, workspace, out)``.

    Args:
        dtype: ``float32`` or ``float64``.
        columns: Columns of complete windows; None without the second stage.
        divides: If True, divide by a divisor for each result of a plane, or without the second stage for each row.
    """
    code = _Rows(dtype, "%p2", columns)
    kind, width = code.kind, code.n["width"]
    with code.rows() as (number, row, plane, first, end):
        out = code.at(kind, "%p4", code.mul(number, code.n["columns"]))
        is_direct = columns is not None and columns.is_direct
        sums = code.tap(plane, first) if is_direct else out if columns is None else "%p3"
        if not is_direct:
            code.add_rows(sums, width, plane, first, end)
        if columns is None and divides:
            divisor = code.value("%p1", row)
            with code.loop("0", width) as w:
                code.store(code.new(f"fdiv {kind} {code.value(sums, w)}, {divisor}"), sums, w)
        if columns is not None:
            divisors = code.at(kind, "%p1", code.mul(row, code.n["columns"]))

            def write(column: str, known: list[str] | None) -> None:
                made = code.added_columns(sums, column, known)
                if divides:
                    made = code.new(f"fdiv {kind} {made}, {code.value(divisors, column)}")
                code.store(made, out, column)

            code.over_columns(columns, write)
    return code.module("pool", 5, 2)


def spread_text(dtype: str, columns: Columns) -> str:
    """Return the loop ``loop(numbers, table, x, workspace, out)`` of sums over planes, columns before rows.

    It needs less work than `sums_text` if a plane has fewer elements than its result. A part's numbers count planes.
    The taps' offsets are those of rows in the workspace, which have the columns of the result.
    """
    code = _Rows(dtype, "%p1", columns)
    kind, n = code.kind, code.n
    with code.loop(n["first"], n["last"]) as plane:
        x = code.at(kind, "%p1", code.mul(plane, n["area"]))
        with code.loop("0", code.new(f"sdiv i64 {n['area']}, {n['width']}")) as row:
            source = code.at(kind, x, code.mul(row, n["width"]))
            to = code.at(kind, "%p2", code.mul(row, n["columns"]))
            code.over_columns(
                columns, lambda c, known: code.store(code.added_columns(source, c, known), to, c)
            )
        with code.loop("0", n["rows"]) as row:
            number = code.add(code.mul(plane, n["rows"]), row)
            out = code.at(kind, "%p3", code.mul(number, n["columns"]))
            first, end = code.number("%p0", row), code.number("%p0", code.add(row, "1"))
            code.add_rows(out, n["columns"], "%p2", first, end)
    return code.module("pool", 4, 2)


def scatter_text(dtype: str, is_last: bool) -> str:
    """Return the loop ``loop(numbers, grad, indices, flags, out)``: each gradient is added to the element at its index.

    Args:
        dtype: ``float32`` or ``float64``.
        is_last: If True, a position has several channels, which are contiguous.
    """
    code = FloatCode(dtype)
    kind, n = code.kind, code.numbers("%g", SCATTER_NUMBERS)
    flags = code.at("i64", "%p2", n["slot"])
    size = 4 if kind == "float" else 8
    with code.loop(n["first"], n["last"]) as plane:
        to = code.at(kind, "%p3", code.mul(code.mul(plane, n["area"]), n["channels"]))
        start = code.mul(code.mul(plane, n["count"]), n["channels"])
        grads, indices = code.at(kind, "%p0", start), code.at("i64", "%p1", start)
        if is_last:
            wide = code.mul(code.new(f"sub i64 {n['end']}, {n['begin']}"), str(size))
            with code.loop("0", n["area"]) as position:
                line = code.at(kind, to, code.add(code.mul(position, n["channels"]), n["begin"]))
                code.do(f"call void @llvm.memset.p0.i64(ptr {line}, i8 0, i64 {wide}, i1 false)")
        else:
            nbytes = code.mul(n["area"], str(size))
            code.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {nbytes}, i1 false)")
        with code.loop("0", n["count"]) as position, _channels(code, n, is_last) as channel:
            place = code.add(code.mul(position, n["channels"]), channel) if is_last else position
            index = code.value(indices, place, "i64")
            is_inside = code.new(f"icmp ult i64 {index}, {n['area']}")
            with code.when(is_inside):
                target = code.add(code.mul(index, n["channels"]), channel) if is_last else index
                added = code.new(f"fadd {kind} {code.value(to, target)}, {code.value(grads, place)}")
                code.store(added, to, target)
            with code.when(code.new(f"xor i1 {is_inside}, true")):
                code.do(f"store i64 1, ptr {flags}")
    return code.module("pool", 4, 2) + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


@contextlib.contextmanager
def _channels(code: FloatCode, n: dict[str, str], is_last: bool) -> Iterator[str]:
    """Iterate over the channels of a part."""
    if is_last:
        with code.loop(n["begin"], n["end"]) as channel:
            yield channel
    else:
        yield "0"


def pool_loop(kind: str, dtype: str, *options: object) -> Callable[..., None]:
    """Return the compiled loop of a kind, a key of `TEXTS`."""
    return loop_function(TEXTS[kind](dtype, *options))


TEXTS: dict[str, Callable[..., str]] = {
    "maxima": maxima_text,
    "sums": sums_text,
    "spread": spread_text,
    "scatter": scatter_text,
}
