"""Plants faults into compiled kernels and their launches, and prints a line for each: found, or not.

Run in a process of its own with ``TRITEN_CUDA=emulate``; with ``TRITEN_EMULATE=90`` kernels are those of sm_90, and the
faults are of its tensor maps, barriers in shared memory and products by four warps. A fault counts as found where the
emulator raises, or where the result is not the CPU's any more. With ``--turn N`` every other fault is planted,
beginning with the first for an even N, and those that ``--always`` names.
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
