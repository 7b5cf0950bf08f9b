"""Products of matrices and vectors by BLAS."""
