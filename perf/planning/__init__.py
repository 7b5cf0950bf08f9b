"""Prediction of a program's time and memory on a device that need not be present: `tt.perf.plan`.

- `recording` runs the program on Meta tensors, and records its calls and its live bytes (over
  `costs.watching`, as `tt.perf.cost` does).
- `prediction` adds up a device model's predictions for each call.
- `data_sheets` is the model of GPUs; `host_time` is the host time of a call there.
- `processor` is the model of this machine's CPU, from rates that `rates` measures for the kinds of work in
  `kinds`.
- `communication/` models interconnects; `parallel/` places a program on a mesh of devices.
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
