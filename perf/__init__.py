"""Measurements of triten beside its peers, and what programs cost and will take: `python -m triten.perf`,
`tt.perf.cost`, `tt.perf.plan`.

`costs/` counts bytes and operations on Meta tensors, `planning/` predicts memory and time from them. `suite/` is the
benchmark suite with its result file; `gpu/` times kernels on a GPU against targets; `ahead_of_time/` compiles kernels
without one; `programs/` runs other people's programs for PyTorch. The modules beside them are one measurement each, or
one means of measuring. Imported when `tt.perf` is first used; nothing in the package needs it.
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

__all__ = [
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
    "TensorParallel",
    "cost",
    "plan",
]
