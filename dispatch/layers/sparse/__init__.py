"""Kernels of the Sparse and SparseCsr keys: what operators do with tensors of sparse layouts.

They are made of operators on the dense tensors that a sparse one holds (`runtime/sparse_data.py`), so that one function
serves the CPU, CUDA and Meta. Each module has a group of operators; `table.py` finds a module by the operator's name
when the first sparse tensor comes to it. An operator without a row there is refused. What needs a kernel of its own,
such as the product of compressed rows with a dense matrix, is an operator on dense tensors with a stub in
`cpu_fallback/sparse/` and `triton_kernels/sparse/`.
"""
