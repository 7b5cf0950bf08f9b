"""NumPy kernels of the CPU, a folder for each family of operators, as in `triton_kernels`.

Kernels register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
reads the `StructuredCall` (dtypes, sizes, strides) once, and returns the function over ndarrays that a plan
calls. No kernel loops over elements in Python. NumPy comes from `plain_numpy.py`, whose functions skip the
`__array_function__` dispatch.

The dispatcher imports a module when it first needs one of its kernels
(`dispatch/structured/kernel_packages.py`). Code that several families share is next to the folders.

A compiled loop is a file beside its kernel, such as `convolution/taps_loop.py`. The kernel requests it through
`runtime/cpu/loop_requests.py`. `function_check` compares instructions bitwise with these kernels.
"""
