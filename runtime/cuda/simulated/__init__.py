"""Simulated devices: memory, streams, events, capture, graphs and LAPACK instead of NVIDIA's libraries.

They provide all parts of a driver but kernels. `interpreter/` runs kernels in Triton's interpreter, `emulator/`
executes their compiled PTX. Nothing here depends on Triton.
"""
