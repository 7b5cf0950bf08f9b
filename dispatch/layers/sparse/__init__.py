"""Kernels of the Sparse and SparseCsr keys: operators on tensors of sparse layouts.

The kernels are composed of operators on the dense tensors that a sparse one holds (`runtime/sparse_data.py`), so that
one function serves the CPU, CUDA and Meta. Each module has a group of operators; `table.py` finds a module by the
operator's name when the first sparse tensor comes to it. Operators without a row there are refused. A function that
needs its own kernel, such as the matmul of compressed rows with a dense matrix, is an operator on dense tensors. Its
stub is in `cpu_fallback/sparse/` and `triton_kernels/sparse/`.
"""
