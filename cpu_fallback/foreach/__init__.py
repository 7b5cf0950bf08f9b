"""NumPy kernels of operators over lists of tensors."""
