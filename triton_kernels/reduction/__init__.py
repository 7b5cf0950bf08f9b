"""Reductions to one or several values, and scans along a dimension.

`sides.py` views an operand as kept and reduced dimensions. A reduction is a table row over the skeletons of
`reduction_kernels.py` and `joint_reduction_kernels.py`. Norms that return a tensor as large as their input
belong in `normalization/`, unless they are only a reduction and an elementwise launch.
"""
