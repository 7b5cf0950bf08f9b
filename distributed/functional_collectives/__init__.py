"""Collectives as operators: `tt.ops._c10d_functional` and `_c10d_functional_autograd` (c10d/Functional.cpp).

- `schemas` declares the operators, and `operators` registers them at the first access.
- `kernels` and `meta` implement them, and `derivatives` differentiates them.
- `pending` tracks communications that no thread has waited for yet.
- `async_collective_tensor` is the tensor that waits at its first use.

The functions that programs call are in `distributed._functional_collectives`.
"""
