"""Prediction of a program on many devices: `tt.perf.plan(..., mesh=..., interconnect=...)`.

- `strategies` defines the use of each dimension of a `mesh`.
- `timeline` is the program of one device, in order, from its run on Meta tensors.
- `stage` replays it with the strategies' communication, on its own clock.
- `pipeline` schedules stages and microbatches.
- `memory` adds up the memory of a rank.
- `distributed_plan` is the result, and `prediction` computes it.

The times of collectives come from `..communication`.
"""
