"""Predicted times of the rows of `python -m triten.perf gpu`, from the model of a launch, without a GPU.

Each row runs on a driver that records its launches, and their kernels are compiled for the target. The model
(`planning.launch_time`) predicts the best time that their code allows, and the bottleneck. Nothing is
measured. The table is stored in `perf/results/expected-<target>.json`, which a run on a GPU shows beside its
own times.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..ahead_of_time.compilation import Cache, compile_all, compiling_environment, default_cache
from ..ahead_of_time.request import Request
from ..planning.compiled import code_of
from ..planning.launch_time import Estimate, launch
from ..planning.multiprocessor import MULTIPROCESSORS, Multiprocessor
from ..refusal import RefusalError, expression, require_positive, require_writable_folder
from .published import PUBLISHED, best_of
from .work import work_of
from .workloads import Workload, all_workloads

RESULTS = Path(__file__).parents[1] / "results"
SAMPLES = "triten.perf.ahead_of_time.samples"
PERSISTENT = (
    "matmul_persistent",
    "matmul_warp_specialized",
    "convolve_bulk",
    "convolve_bulk_strided",
    "convolve_bulk_phases",
)
"""Persistent kernels, whose blocks process several tiles."""


@dataclass
class ExpectedRow:
    """Predicted time of one row: microseconds, the share of a limit, and the bottleneck.

    `published` are results of other implementations; `of_best` is the model's share of its peak over the best
    of theirs. `in_flight` are the bytes in flight per multiprocessor in the row's main kernel. `needed` are
    the bytes that Little's law requires for 85 % of the bandwidth; 0 if operands come from a cache.
    """

    group: str
    name: str
    microseconds: float
    share: float
    limit: str
    term: str
    waves: float
    resident: int
    kernels: list[str]
    published: list[str] = field(default_factory=list)
    of_best: float | None = None
    in_flight: int = 0
    needed: int = 0

    @property
    def waits(self) -> bool:
        """True if fewer bytes are in flight than Little's law requires."""
        return self.in_flight < self.needed

    def __str__(self) -> str:
        share = f"{self.share:>5.0%} of {self.limit:<10} {self.term:<24}"
        line = f"{self.name:<44}{self.microseconds:>10.1f} us {share}{self.waves:>8.2f}"
        flight = f"{self.in_flight / 1000:.1f} / {self.needed / 1000:.1f} kB" if self.needed else ""
        line += f"{flight:>18}  {', '.join(self.kernels)}"
        beside = (
            ""
            if self.of_best is None
            else f"\n{'':<6}{self.of_best:.0%} of the best of: {'; '.join(self.published)}"
        )
        return line + beside


def recorded(capability: int, pattern: str) -> dict[str, Any]:
    """Return the launches of the rows. Raise RuntimeError with the error output of the process that ran them."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"{__package__}.row_launches", str(capability), pattern],
        env=compiling_environment(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the rows' launches cannot be recorded: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def expected_row(
    multiprocessor: Multiprocessor, workload: Workload, launches: Sequence[Mapping[str, Any]]
) -> ExpectedRow:
    """Predict a row's time: the time of its main launch, plus one pass of each other launch.

    The bytes are those of `work_of`; the operations are those of the row's matmuls.
    """
    nbytes = float(work_of(workload)[0])
    main = max(
        launches, key=lambda one: (bool(workload.flops) and one["reuses"], one["programs"] * one["warps"])
    )
    estimate = main_launch(multiprocessor, workload, main, nbytes, is_alone=len(launches) == 1)
    seconds = estimate.seconds + sum(
        launch(multiprocessor, code_of(o), o["programs"]).seconds for o in launches if o is not main
    )
    sheet = multiprocessor.sheet
    if main["reuses"]:
        share = workload.flops / seconds / sheet.peaks[estimate.limit]
    else:
        share = nbytes / seconds / sheet.bytes_per_second
    kernels = [entry["request"]["kernel"].rpartition(":")[2] for entry in launches]
    return ExpectedRow(
        workload.group, workload.name, round(1e6 * seconds, 2), round(share, 3), estimate.limit, estimate.term,
        round(estimate.waves, 2), estimate.resident, kernels, *beside_published(workload, share), estimate.in_flight,
        estimate.needed,
    )  # fmt: skip


def beside_published(workload: Workload, share: float) -> tuple[list[str], float | None]:
    """Return published results, and the share of the peak relative to the best of them."""
    best = best_of(workload.group, workload.name)
    texts = [str(result) for result in PUBLISHED.get((workload.group, workload.name), ())]
    return texts, None if best is None else round(share / best.share, 3)


def main_launch(
    multiprocessor: Multiprocessor,
    workload: Workload,
    entry: Mapping[str, Any],
    nbytes: float,
    is_alone: bool,
) -> Estimate:
    """Estimate the main launch of a row."""
    code, programs, operations, epilogue = code_of(entry), entry["programs"], float(workload.flops), 0.0
    if not is_alone and not code.schedule.is_loop and not entry["reuses"]:
        nbytes = min(nbytes, programs * code.block_bytes)  # the rest is what the other launches move
    name = entry["request"]["kernel"].rpartition(":")[2]
    if entry["reuses"] and workload.flops:
        rows, columns = entry["tile"][:2]
        # The fourth number of attention's tiles is the width of its result.
        wide = len(entry["tile"]) == 4 and not name.startswith("convolve")
        epilogue = 2.0 * rows * (entry["tile"][3] if wide else columns)
        if name in PERSISTENT:
            m, n = sides_of(workload)
            programs = math.ceil(m / rows) * math.ceil(n / columns)
    return launch(multiprocessor, code, programs, nbytes, operations, epilogue)


def sides_of(workload: Workload) -> tuple[int, int]:
    """Rows and columns of a product's result; of a convolution places and filters, of its input's gradient pixels and
    channels."""
    if "g" in workload.operands:
        images, channels, *sides = workload.operands["x"].shape
        return images * math.prod(sides), channels
    weight = workload.operands.get("w")
    if weight is not None:
        columns, depth = weight.shape[0], math.prod(weight.shape[1:])
        return round(workload.flops / (2 * columns * depth)), columns
    left = workload.operands["a"].shape
    rows, depth = math.prod(left[:-1]), left[-1]
    return rows, round(workload.flops / (2 * rows * depth))


def expected_rows(
    capability: int, pattern: str = "", workers: int = 2, cache: Path | None = None
) -> list[ExpectedRow]:
    """Predict every row that matches a pattern, in the order of the benchmark."""
    multiprocessor, report = MULTIPROCESSORS[capability], recorded(capability, pattern)
    every = [entry for _, _, launches in report["rows"] for entry in launches]
    requests = {
        entry["request"]["key"]: Request(**entry["request"]) for entry in every if "fault" not in entry
    }
    results = compile_all(
        requests.values(), SAMPLES, Cache(default_cache() if cache is None else cache), workers
    )
    workloads = {(each.group, each.name): each for each in all_workloads()}
    rows = []
    for group, name, launches in report["rows"]:
        known = [
            entry | {"found": results[entry["request"]["key"]]} for entry in launches if "fault" not in entry
        ]
        for entry in known:
            if "error" in entry["found"]:
                raise RuntimeError(f"{name}: {entry['found']['error']}")
        if known:
            rows.append(expected_row(multiprocessor, workloads[group, name], known))
    return rows


def result_file(capability: int) -> Path:
    """Return the path of a target's table."""
    return RESULTS / f"expected-sm_{capability}.json"


def kept_rows(capability: int) -> dict[tuple[str, str], ExpectedRow]:
    """Return a target's stored table by group and name; empty if there is none."""
    path = result_file(capability)
    if not path.exists():
        return {}
    rows = (ExpectedRow(**row) for row in json.loads(path.read_text())["rows"])
    return {(row.group, row.name): row for row in rows}


def rows_for(capability: int, device: str) -> dict[tuple[str, str], ExpectedRow]:
    """Return the stored table of a device; empty for another device of the same capability, such as an H200."""
    multiprocessor = MULTIPROCESSORS.get(capability)
    return (
        kept_rows(capability) if multiprocessor is not None and multiprocessor.target.device in device else {}
    )


def write_rows(capability: int, rows: Iterable[ExpectedRow]) -> Path:
    """Keep a table: these rows, and of those that were kept the others."""
    path, merged = result_file(capability), kept_rows(capability)
    merged |= {(row.group, row.name): row for row in rows}
    order = {(each.group, each.name): i for i, each in enumerate(all_workloads())}
    ordered = sorted((key for key in merged if key in order), key=lambda key: order[key])
    report = {
        "format": "triten.perf.expected", "target": f"sm_{capability}",
        "device": MULTIPROCESSORS[capability].sheet.name, "measured": False,
        "rows": [asdict(merged[key]) for key in ordered],
    }  # fmt: skip
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf expect`."""
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose `group: name` matches")
    parser.add_argument("--target", type=int, default=90, choices=list(MULTIPROCESSORS), help="default: 90")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help=f"default: {default_cache()}")
    parser.add_argument("--keep", action="store_true", help="write the rows into the table that is kept")


def run(arguments: argparse.Namespace) -> int:
    """Print the rows by group. Raises RefusalError."""
    require_positive(arguments, "workers")
    expression(arguments.rows)
    require_writable_folder(arguments.cache or default_cache())
    rows = expected_rows(arguments.target, arguments.rows, arguments.workers, arguments.cache)
    if not rows:
        raise RefusalError(f"--rows {arguments.rows!r}: no row matches")
    print(f"{MULTIPROCESSORS[arguments.target].sheet.name}, by a model: nothing was measured")
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            print(f"\n{group}")
        print(row)
    few = [row for row in rows if row.waits]
    print(f"\n{len(few)} of {len(rows)} rows have fewer bytes in flight than 85 % of the bandwidth takes:")
    for row in few:
        print(f"{row.group}: {row.name}")
    if arguments.keep:
        print(f"\nwritten to {write_rows(arguments.target, rows)}")
    return 0
