"""What a program will take on a device that need not be there: `tt.perf.plan`.

`recording` runs the program on Meta tensors and notes its calls and its living bytes (over `costs.watching`, as
`tt.perf.cost` does); `prediction` adds up what a device's model says of each call. `data_sheets` is the model of GPUs,
`host_time` what a call costs the host there; `processor` is the model of this machine's CPU, from rates that `rates`
measures for the kinds of work in `kinds`. `communication/` is the model of what joins devices, `parallel/` puts a
program on a mesh of them.
"""

from .communication.interconnect import Interconnect, Link
from .parallel.distributed_plan import DistributedPlan
from .parallel.strategies import DataParallel, FullyShard, Pipeline, TensorParallel
from .prediction import OperatorPlan, Plan, plan

__all__ = [
    "DataParallel",
    "DistributedPlan",
    "FullyShard",
    "Interconnect",
    "Link",
    "OperatorPlan",
    "Pipeline",
    "Plan",
    "TensorParallel",
    "plan",
]
