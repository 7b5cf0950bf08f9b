"""Products of matrices and vectors, with their epilogues.

`product.py` has what convolutions share with them. No convolution lives here.
"""
