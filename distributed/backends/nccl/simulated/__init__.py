"""Stand-in for NCCL on simulated CUDA devices, with the API of `cupy.cuda.nccl`.

`binding` implements that API. `calls` defines which bytes each NCCL function sends to which rank, and how
received bytes are combined. `mesh` carries the bytes between processes of one machine, over sockets. A call
is two items of stream work: the first sends, the second waits for other ranks (`Scheduler.wait_outside`).
"""
