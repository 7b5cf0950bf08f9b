"""Triton kernels of operators on the dense parts that sparse tensors are made of."""
