"""Matmuls and matrix-vector multiplication by BLAS."""
