"""Recorder process: the launches of the rows of `workloads` on a target, without a GPU.

The operators run on a driver that records each launch, as in the ahead-of-time checks, with the rows' own
sizes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from ...runtime.cuda import driver as cuda
from ...runtime.cuda.occupancy import KNOWN
from ..ahead_of_time.coverage import seen_through_declaration
from ..ahead_of_time.recording import DECLARATIONS, Entry, RecordingDriver, describe, request_for, versions
from ..ahead_of_time.sample import empty, tt
from .workloads import Operand, Workload, all_workloads


def tensor(operand: Operand) -> Any:
    """Return an operand's tensor on the recording device."""
    return empty(*operand.shape, dtype=operand.dtype, last=operand.channels_last)


def launches_of(workload: Workload, driver: RecordingDriver, version: list[str]) -> list[dict[str, Any]]:
    """Return the launches of the row's second run, when all plans exist."""
    functional = tt.nn.functional
    tt.set_float32_matmul_precision("high" if workload.tf32 else "highest")
    names = {"lib": tt, "F": functional} | {
        name: tensor(operand) for name, operand in workload.operands.items()
    }
    code = compile(workload.statement, f"<{workload.name}>", "eval")
    for _ in range(2):
        driver.launched.clear()
        driver.grids.clear()
        eval(code, dict(names))
    entries = []
    for noted, grid in zip(driver.launched, driver.grids, strict=True):
        request = request_for(noted, driver.target, version)
        declaration = DECLARATIONS[request.kernel]
        covered = seen_through_declaration(
            declaration, driver.target, request.signature, noted["constants"], request.options
        )
        tile = [noted["constants"][name] for name in declaration.tile]
        entry = Entry(request, workload.name, False, covered)
        blocks = grid[0] * grid[1] * grid[2] * request.options.get("num_ctas", 1)
        entries.append(describe(entry, driver.target) | {"programs": blocks, "tile": tile})
    return entries


def rows(capability: int, pattern: str) -> Iterator[tuple[Workload, list[dict[str, Any]]]]:
    """Yield each row whose ``group: name`` matches, with its launches."""
    driver = cuda._driver = RecordingDriver(KNOWN[capability])
    version = versions()
    for workload in all_workloads():
        if re.search(pattern, f"{workload.group}: {workload.name}"):
            yield workload, launches_of(workload, driver, version)


def main(capability: int, pattern: str) -> None:
    """Print the launches of the rows, by the rows' groups and names, as JSON."""
    os.environ["TRITEN_TUNING_STORE"] = "0"  # what was measured on some machine is nothing that ships
    entries = [[workload.group, workload.name, launches] for workload, launches in rows(capability, pattern)]
    json.dump({"triton": versions()[0], "rows": entries}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
