"""Timing on a GPU beside PyTorch, in one process: ``python -m triten.perf gpu``.

`workloads.py` lists what is timed, `timing.py` measures device time, `host_time.py` and `training_step.py` what the
host takes, `peer.py` gives both libraries the same numbers and compares results, `targets.py` says what would be
good, `rows.py` keeps and prints. PyTorch is a peer only, imported where it is installed. Tests do not belong here.
"""
