"""Kinds of dtypes in rows of the kernel tables: letters of NumPy's `dtype.kind`, with one meaning on every device.

``b`` is bool, ``i`` and ``u`` are signed and unsigned integers, ``f`` floats and ``c`` complex numbers. A row of CUDA
has no ``c``: complex numbers have kernels of their own there.
"""

FLOAT = "f"
INEXACT = "fc"
INTEGER = "iu"
BITS = "biu"
"""Bools and integers."""
REAL = "biuf"
ANY = "biufc"
REAL_NUMBERS = "iuf"
NUMBERS = "iufc"
"""All but bools."""
