"""NCCL backend for CUDA tensors, on CuPy's binding.

- `communicator` implements a group's collectives and messages.
- `device_communicator` wraps NCCL's communicator on one device, with its stream.
- `reductions` maps reductions to NCCL's operations and dtypes.
- `work` is a running communication, `watchdog` the thread that detects a timeout.
- `health` handles a group after a communication was aborted.
- `agreement` compares the ranks' calls.
- `library` loads NCCL, or its stand-in on simulated devices, `simulated/`.
"""
