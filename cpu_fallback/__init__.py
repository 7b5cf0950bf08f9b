"""NumPy kernels of the CPU, a folder for each family of operators, as in `triton_kernels`.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` (dtypes, sizes, strides) once, and returns the function over ndarrays that a plan
calls. No loop over elements in Python. NumPy comes from `plain_numpy.py`, whose functions ask nobody whether an
argument handles the call.

Modules are imported when one of their kernels is first wanted (`dispatch/structured/kernel_packages.py`). What several
families share lies beside the folders.
"""
