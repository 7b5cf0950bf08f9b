"""TensorIterator: broadcasting, promotion, overlap, stride order and coalescing, decided from specs.

`TensorIteratorConfig` says what an operator wants, `build()` decides it, kernels of every device consume the
result. Source: ATen/TensorIterator.cpp. Kernels themselves do not belong here.
"""
