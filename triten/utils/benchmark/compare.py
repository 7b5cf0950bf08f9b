"""`Compare`: measurements in tables, as `torch.utils.benchmark` prints them."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

BOLD, END = "\033[1m", "\033[0m"
BEST, GOOD, BAD, VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"


class Colorize(enum.Enum):
    """Group within which times are colored: none, column or row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table of measurements for each label (`torch.utils.benchmark.Compare`).

    Rows are second labels, or statements, for each number of threads; columns are descriptions.

    Args:
        results: the measurements. Those of the same task are merged.

    Raises:
        ValueError: something is no `Measurement`.

    Example:
        >>> from triten.utils.benchmark import Compare, Measurement, TaskSpec
        >>> def measured(size, time):
        ...     return Measurement(1, [time], TaskSpec("f(x)", "pass", label="f", sub_label="fast", description=size))
        >>> Compare([measured("n=1", 2e-6), measured("n=4", 3e-6)]).print()
        [---------- f -----------]
                    |  n=1  |  n=4
        1 threads: ---------------
              fast  |  2.0  |  3.0
        <BLANKLINE>
        Times are in microseconds (us).
        <BLANKLINE>
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = False
        self._colors = Colorize.NONE
        self._warnings = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements.

        Raises:
            ValueError: An element is not a `Measurement`.
        """
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Print the figures only that can be trusted."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Color times by how they compare in their column, or in their row."""
        self._colors = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Print the spread of times that spread much."""
        self._warnings = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        by_label: dict[str | None, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            by_label.setdefault(result.task_spec.label, []).append(result)
        return "\n".join(
            _table(results, self._trim, self._colors, self._warnings) for results in by_label.values()
        )


Cells = Sequence[Measurement | None]


class _Column:
    """One column: how its times are written."""

    def __init__(self, cells: Cells, scale: float, trim: bool, warnings: bool) -> None:
        self.scale, self.trim = scale, trim
        present = [cell for cell in cells if cell is not None]
        self.warnings = warnings and any(cell.has_warnings for cell in present)
        digits = [math.ceil(math.log10(cell.median / scale)) for cell in present]
        decimals = 1
        if trim:
            decimals = min(
                max(cell.significant_figures - before, 0)
                for cell, before in zip(present, digits, strict=True)
            )
        self.decimals = decimals
        self.width = max(digits) + decimals + (1 if decimals else 0)

    def text(self, cell: Measurement | None) -> str:
        """Format a time, with its spread if that is large."""
        if cell is None:
            return " " * (max(self.width, len(f"{1:.{self.decimals}f}")) + 7 * self.warnings)
        value = cell.median / self.scale
        if self.trim:
            value = trim_sigfig(value, cell.significant_figures)
        text = f"{value:>{max(self.width, 0)}.{self.decimals}f}"
        if self.warnings:
            text += (f" (! {cell.iqr / cell.median * 100:.0f}%)" if cell.has_warnings else "").rjust(7)
        return text


def _table(results: Sequence[Measurement], trim: bool, colors: Colorize, warnings: bool) -> str:
    unit, scale = select_unit(min(result.median for result in results))
    rows = ordered_unique([_row_of(result) for result in results])
    rows.sort(key=lambda row: (row[0], row[1] or ""))
    descriptions = ordered_unique([result.task_spec.description for result in results])
    result_by_cell = {(_row_of(result), result.task_spec.description): result for result in results}
    cells = [[result_by_cell.get((row, description)) for description in descriptions] for row in rows]
    columns = [_Column([line[i] for line in cells], scale, trim, warnings) for i in range(len(descriptions))]
    environments = {row[1] for row in rows}
    room = max(len(_environment(each)) for each in environments) + 2 if len(environments) > 1 else 0
    lines: list[list[str]] = [["", *(description or "" for description in descriptions)]]
    before: tuple[int, str | None] | None = None
    for row, line in zip(rows, cells, strict=True):
        new = room and row[:2] != before
        name = (f"({_environment(row[1])})" if new else "").ljust(room + 2 if room else 4)
        lines.append(
            [f"  {name}{row[2]}", *(column.text(cell) for column, cell in zip(columns, line, strict=True))]
        )
        before = row[:2]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    printed = ["  |  ".join(text.center(width) for text, width in zip(lines[0], widths, strict=True))]
    overall = len(printed[0])
    threads = None
    for row, line, texts in zip(rows, cells, lines[1:], strict=True):
        if row[0] != threads:
            threads = row[0]
            printed.append(f"{threads} threads: ".ljust(overall, "-"))
        centered = [text.center(width) for text, width in zip(texts[1:], widths[1:], strict=True)]
        if colors is not Colorize.NONE:
            group = [other for group_row, other in zip(rows, cells, strict=True) if group_row[0] == threads]
            for i, cell in enumerate(line):
                beside = line if colors is Colorize.ROWWISE else [other[i] for other in group]
                if cell is not None:
                    best = min(other.median for other in beside if other is not None)
                    centered[i] = _coloured(centered[i], cell.median, best)
        printed.append("  |  ".join([texts[0].ljust(widths[0]), *centered]))
    spread = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
    note = spread if warnings and any(result.has_warnings for result in results) else ""
    title = f" {results[0].task_spec.label or ''} ".center(overall - 2, "-")
    body = "\n".join(printed)
    return f"[{title}]\n{body}\n\nTimes are in {unit_to_english(unit)}s ({unit}).\n{note}"


def _row_of(result: Measurement) -> tuple[int, str | None, str]:
    return result.task_spec.num_threads, result.task_spec.env, result.as_row_name


def _environment(name: str | None) -> str:
    return "Unspecified env" if name is None else name


def _coloured(text: str, time: float, best: float) -> str:
    if time <= best * 1.01 or time <= best + 100e-9:
        return f"{BEST}{BOLD}{text}{END}{END}"
    if time <= best * 1.1:
        return f"{GOOD}{BOLD}{text}{END}{END}"
    if time >= best * 5:
        return f"{VERY_BAD}{BOLD}{text}{END}{END}"
    return f"{BAD}{text}{END}{END}" if time >= best * 2 else text
