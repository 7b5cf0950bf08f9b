"""Hand-written public functions over operators, with signatures that no schema can express.

The root re-exports them. They only call operators; kernels and meta functions do not belong here.
"""
