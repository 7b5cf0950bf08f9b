"""Kernels of quantized tensors: what is not made of operators on their integers."""
