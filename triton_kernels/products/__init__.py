"""Matmuls and matrix-vector multiplication, with their epilogues.

`product.py` has the code that convolutions share with them. No convolution lives here.
"""
