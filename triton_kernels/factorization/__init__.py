"""Factorisations on the device: the driver's libraries compute, our kernels lay operands out for them.

`library.py` serves every stub of `dispatch/structured/library_routine.py`.
"""
