"""The gate's table: a row for each kernel, configuration, target and occupancy, over all that was compiled of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...runtime.cuda.occupancy import KNOWN, TARGETS, resident_blocks
from ..planning.compiled import estimate_of

COLUMNS = (
    "kernel",
    "target",
    "configuration",
    "dtypes",
    "compiled",
    "blocks",
    "registers",
    "shared memory",
    "widest",
    "matrix",
    "model",
    "in flight",
    "faults",
)


@dataclass
class Row:
    """Result of a kernel's configuration on a target: the maximum usage over its compilations.

    `blocks` and the budgets are declared or derived from the declaration. `resident` is the minimum that the
    compiled code allows. `widest` is the maximum width of accesses to its operands. `share` is the minimum
    share of a `limit` that a full device reaches in the model of `planning.launch_time`. `term` is the
    bottleneck, with the bytes in flight and those that Little's law requires. No time was measured.
    """

    kernel: str
    target: str
    configuration: str
    blocks: int
    register_budget: int
    shared_budget: int
    dtypes: list[str] = field(default_factory=list)
    compiled: int = 0
    resident: int = 0
    registers: int = 0
    shared: int = 0
    tensor_memory: int = 0
    local: int = 0
    widest: int = 0
    matrix: list[str] = field(default_factory=list)
    faults: int = 0
    share: float | None = None
    limit: str = ""
    term: str = ""
    in_flight: int = 0
    needed: int = 0

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row, by `COLUMNS`."""
        shared = f"{self.shared:,} / {self.shared_budget:,}"
        if self.tensor_memory:
            shared += f", {self.tensor_memory} columns"
        registers = f"{self.registers} / {self.register_budget}"
        if self.local:
            registers += f", {self.local} B local"
        return (
            self.kernel,
            self.target,
            self.configuration,
            " ".join(self.dtypes),
            str(self.compiled),
            f"{self.resident} / {self.blocks}",
            registers,
            shared,
            str(self.widest),
            " ".join(self.matrix),
            "" if self.share is None else f"{self.share:.0%} of {self.limit}, {self.term}",
            f"{self.in_flight:,} / {self.needed:,}" if self.needed else "",
            str(self.faults or ""),
        )


def rows_of(launches: Iterable[dict[str, Any]]) -> list[Row]:
    """Return the table of compiled kernels, sorted by kernel, configuration, target and blocks."""
    # Unaligned launches and some dtypes may be declared with fewer blocks.
    rows: dict[tuple[str, str, int, int], Row] = {}
    for launch in launches:
        request, expected, compiled = launch["request"], launch["expected"], launch["found"]
        kernel, target = request["kernel"].rpartition(":")[2], KNOWN[request["target"]]
        key = kernel, launch["configuration"], target.capability, -launch["blocks"]
        row = rows.get(key)
        if row is None:
            row = rows[key] = Row(
                kernel,
                target.name,
                launch["configuration"],
                launch["blocks"],
                expected["registers"],
                expected["shared"],
                resident=target.blocks,
            )
        row.compiled += 1
        row.faults += len(launch["faults"])
        row.dtypes = sorted({*row.dtypes, launch["dtype"]})
        if "error" in compiled:
            row.resident = 0
            continue
        resident = resident_blocks(
            target, launch["warps"], compiled["registers"], compiled["shared"], compiled["tensor_memory"]
        )
        row.resident = min(row.resident, resident)
        for name in ("registers", "shared", "tensor_memory", "local"):
            setattr(row, name, max(getattr(row, name), compiled[name]))
        row.widest = max(row.widest, *widths(compiled), 0)
        row.matrix = sorted({*row.matrix, *compiled["matrix"]})
        estimate = estimate_of(launch)
        if estimate is not None and (row.share is None or estimate.share < row.share):
            row.share, row.limit, row.term = round(estimate.share, 3), estimate.limit, estimate.term
            row.in_flight, row.needed = estimate.in_flight, estimate.needed
    return [rows[key] for key in sorted(rows)]


def widths(compiled: dict[str, Any]) -> Iterator[int]:
    """Yield the widths of accesses to operands."""
    for operand in compiled["operands"].values():
        for kind in ("loads", "stores"):
            yield from map(int, operand[kind])


def print_table(rows: Sequence[Row]) -> None:
    """Print the table: by `rich` on a terminal where it is installed, else as plain columns."""
    cells = [row.cells() for row in rows]
    if sys.stdout.isatty() and find_spec("rich"):
        from rich.console import Console
        from rich.table import Table

        table = Table(*COLUMNS)
        for row in cells:
            table.add_row(*row, style="red" if row[-1] else None)
        Console().print(table)
        return
    widest = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
    for line in (COLUMNS, *cells):
        print("  ".join(cell.ljust(n) for cell, n in zip(line, widest, strict=True)).rstrip())


INTRODUCTION = """# Kernels compiled ahead of time, Triton {triton}

`make aot` writes this. Of each kernel's configuration: how many launches were compiled; how many blocks a
multiprocessor holds by what the compiler gave, at least, and how many are declared; registers of a thread, and bytes
of shared memory of a block (with columns of tensor memory), each at most, and what the declared blocks leave; the
widest access to an operand in bits; and what a device full of such blocks would reach at least by a model of its
published figures, with what forbids more, and the bytes that a multiprocessor has in flight then beside those that
Little's law asks for, for 85 % of the bandwidth (`perf/planning/launch_time.py`). Nothing here was run on a GPU.

{faults}

"""


def with_rows_renewed(
    folder: Path, rows: Sequence[Row], triton: str, kernels: Collection[str]
) -> list[Row] | None:
    """Return the stored table for this version of Triton, with the rows of these kernels replaced.

    Rows of kernels that no longer exist are dropped. Return None without a stored table, or if the stored
    table has errors, since a partial update of it is meaningless.
    """
    path = folder / f"aot-{triton}.json"
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    if stored["faults"]:
        return None
    renewed = {row.kernel for row in rows}
    left = (row for row in (Row(**fields) for fields in stored["rows"]) if row.kernel in kernels)
    every = [*rows, *(row for row in left if row.kernel not in renewed)]
    order = [target.name for target in TARGETS.values()]
    return sorted(
        every, key=lambda row: (row.kernel, row.configuration, order.index(row.target), -row.blocks)
    )


def write_results(folder: Path, rows: Sequence[Row], faults: Sequence[str], triton: str) -> list[Path]:
    """Write the table as JSON and as Markdown, named by Triton's version; return the two paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = (folder / f"aot-{triton}.{suffix}" for suffix in ("json", "md"))
    report = {"triton": triton, "faults": list(faults), "rows": [asdict(row) for row in rows]}
    data.write_text(json.dumps(report, indent=1) + "\n")
    fault_list = "\n".join(f"- {fault}" for fault in faults) if faults else "No faults."
    lines = [
        " | ".join(COLUMNS),
        "|".join("---" for _ in COLUMNS),
        *(" | ".join(row.cells()) for row in rows),
    ]
    table = "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)
    text.write_text(INTRODUCTION.format(triton=triton, faults=fault_list) + table + "\n")
    return [data, text]
