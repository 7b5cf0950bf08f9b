"""Injection of faults into compiled kernels and their launches, with a line of output for each: found, or
not.

Run it in a process of its own with ``TRITEN_CUDA=emulate``. With ``TRITEN_EMULATE=90`` it compiles kernels
for sm_90, and the faults concern tensor maps, barriers in shared memory and wgmma matmuls. A fault counts as
found if the emulator raises or the result differs from the CPU's. With ``--turn N`` it injects every other
fault, from the first for an even N, and the faults that ``--always`` names.
"""

from __future__ import annotations

import argparse
import json

from triten.tests.runtime.cuda.emulator.planted_calls import TARGET
from triten.tests.runtime.cuda.emulator.planter import TABLES, Planter

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("calls", nargs="*")
    parser.add_argument("--turn", type=int)
    parser.add_argument("--always", nargs="*", default=[])
    given = parser.parse_args()

    def takes(number: int, fault: str) -> bool:
        return given.turn is None or (number + given.turn) % 2 == 0 or fault in given.always

    for call in given.calls or TABLES[TARGET][0]:
        for fault, found in Planter(call).faults(takes):
            print(json.dumps({"call": call, "fault": fault, "found": found[:300]}), flush=True)
