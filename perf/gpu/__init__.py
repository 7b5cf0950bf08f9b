"""GPU benchmarks against PyTorch, in one process: ``python -m triten.perf gpu``.

- `workloads.py` lists the workloads.
- `timing.py` measures device time; `host_time.py` and `training_step.py` measure host time.
- `peer.py` gives both libraries the same inputs and compares their results.
- `targets.py` defines the targets.
- `rows.py` stores and prints the results.

PyTorch is only the baseline, and is imported if it is installed. Tests do not belong here.
"""
