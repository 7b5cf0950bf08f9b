"""NCCL, for tensors on CUDA devices, by CuPy's binding.

`communicator` is a group's collectives and messages; `device_communicator` is NCCL's communicator on one device, with
its stream; `reductions` says which of NCCL's operations and dtypes compute what; `work` is a communication under way,
`watchdog` the thread that looks for those that do not end, `health` what becomes of a group when one is given up,
`agreement` the comparison of the ranks' calls. `library` finds NCCL, or what stands in its place where CUDA is
simulated: `simulated/`.
"""
