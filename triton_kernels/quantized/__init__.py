"""Kernels of quantized tensors that are not composed of operators on their integers."""
