"""Performance measurements against a baseline, and costs and predictions of programs: `python -m
triten.perf`, `tt.perf.benchmark`, `tt.perf.cost`, `tt.perf.plan`, `tt.perf.profile_step`.

- `costs/` counts bytes and operations on Meta tensors; `planning/` predicts memory and time from them.
- `suite/` is the benchmark suite with its result file.
- `gpu/` times kernels on a GPU against targets.
- `ahead_of_time/` compiles kernels without a GPU.
- `history/` stores runs and finds change points; `gate/` judges a change in CI; `report/` and `serve/`
  show runs.
- `step_profile/` profiles a training step for the report: `tt.perf.profile_step`.
- `user_benchmarks/` are benchmarks in the user's own files: `tt.perf.benchmark`.
- `programs/` runs third-party programs written for PyTorch.

Each other module is a single measurement, or a tool for measuring. The package is imported when `tt.perf` is
first used; nothing else in triten depends on it.
"""

from .costs import Cost, OperatorCost, cost
from .planning import (
    DataParallel,
    DistributedPlan,
    FullyShard,
    Interconnect,
    Link,
    OperatorPlan,
    Pipeline,
    Plan,
    TensorParallel,
    plan,
)
from .step_profile import StepProfile, profile_step
from .user_benchmarks import Benchmark, benchmark

__all__ = [
    "Benchmark",
    "Cost",
    "DataParallel",
    "DistributedPlan",
    "FullyShard",
    "Interconnect",
    "Link",
    "OperatorCost",
    "OperatorPlan",
    "Pipeline",
    "Plan",
    "StepProfile",
    "TensorParallel",
    "benchmark",
    "cost",
    "plan",
    "profile_step",
]
