"""Program that looks for kernels without Triton, among the installed packages; it prints what it found."""

import sys

import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.planning_driver import PlanningDriver
from triten.runtime.cuda.triton.cubin_store import find_or_compile

sys.modules["triton"] = None
driver = cuda._driver = PlanningDriver(KNOWN[int(sys.argv[1])])
tt.empty(4096, device="cuda", dtype=getattr(tt, sys.argv[2])).exp()
(each,) = driver.requests
binary = find_or_compile(
    each["kernel"],
    each["signature"],
    each["constants"],
    each["divisible"],
    int(sys.argv[1]),
    each["options"],
    12080,
)
print(binary.name, len(binary.cubin) > 0)
