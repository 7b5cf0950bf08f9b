"""Results of many elements: reductions to one or several values, and scans along a dimension.

`sides.py` sees an operand as kept and reduced dimensions; a reduction is a row over the skeletons of
`reduction_kernels.py` and `joint_reduction_kernels.py`. Norms that give back a tensor as large as their input
belong in `normalization/`, unless a reduction and an elementwise launch are all that they are.
"""
