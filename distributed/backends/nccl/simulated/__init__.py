"""What stands in NCCL's place where CUDA devices are simulated, with the surface of `cupy.cuda.nccl`.

`binding` has that surface. `calls` says which bytes each of NCCL's functions sends to whom, and what becomes of those
that come; `mesh` carries them between processes of one machine, over sockets. A call is two pieces of its stream's
work: one sends, the next waits for what others send, as `Scheduler.wait_outside` lets it.
"""
