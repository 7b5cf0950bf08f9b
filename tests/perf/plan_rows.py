"""Print the launches of each row beyond `all_workloads`, planned at full size for an sm_90, as JSON.

The driver records launches and runs none. A row maps to its number of launches, or to its error.
"""

import json
import os
import sys

os.environ["TRITEN_TUNING_STORE"] = "0"

from triten.perf.ahead_of_time.recording import RecordingDriver
from triten.perf.ahead_of_time.sample import empty, tt
from triten.perf.gpu.further_workloads import further_workloads
from triten.perf.gpu.peer import Pair
from triten.perf.gpu.program import FAILURES
from triten.perf.gpu.statements import statement_runner
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN


def main() -> None:
    driver = cuda._driver = RecordingDriver(KNOWN[90])
    found: dict[str, int | str] = {}
    for workload in further_workloads():
        operands = {
            name: Pair(empty(*o.shape, dtype=o.dtype, last=o.channels_last), None)
            for name, o in workload.operands.items()
        }
        try:
            work = statement_runner(workload, tt, [operands], 0)
            driver.launched.clear()
            work(0)
            found[f"{workload.group}: {workload.name}"] = len(driver.launched)
        except FAILURES as error:
            found[f"{workload.group}: {workload.name}"] = f"{type(error).__name__}: {error}"
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
