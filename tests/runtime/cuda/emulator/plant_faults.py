"""Plants faults into compiled kernels and their launches, and prints a line for each: found, or not.

Run in a process of its own with ``TRITEN_CUDA=emulate``; with ``TRITEN_EMULATE=90`` kernels are those of sm_90, and the
faults are of its tensor maps, barriers in shared memory and products by four warps. A fault counts as found where the
emulator raises, or where the result is not the CPU's any more.
"""

from __future__ import annotations

import json
import sys

from triten.tests.runtime.cuda.emulator.planted_calls import TARGET
from triten.tests.runtime.cuda.emulator.planter import TABLES, Planter

if __name__ == "__main__":
    for call in sys.argv[1:] or TABLES[TARGET][0]:
        for fault, found in Planter(call).faults():
            print(json.dumps({"call": call, "fault": fault, "found": found[:300]}), flush=True)
