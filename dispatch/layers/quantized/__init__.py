"""Kernels of the Quantized key, and the operators of `tt.ops.quantized` (ATen/native/quantized/).

The kernels are composed of operators on the dense integers that a quantized tensor holds (`runtime/quantized_data.py`):
one function serves the CPU, CUDA and Meta. Each module has a group of operators; `table.py` finds a function by the
operator's name when the first quantized tensor comes to it. An operator without one is refused, as PyTorch refuses it.
A function that needs its own kernel is an operator on dense tensors, with a stub in `cpu_fallback/quantized/` and
`triton_kernels/quantized/`.
"""
