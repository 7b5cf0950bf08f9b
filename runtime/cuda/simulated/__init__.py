"""Devices without a GPU: memory, streams, events, capture, graphs and LAPACK in the place of NVIDIA's libraries.

Everything a driver needs but kernels: `interpreter/` runs them in Triton's interpreter, `emulator/` executes the PTX
that they were compiled to. Nothing here knows of Triton.
"""
