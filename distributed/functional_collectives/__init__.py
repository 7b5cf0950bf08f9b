"""Collectives as operators: `tt.ops._c10d_functional` and `_c10d_functional_autograd` (c10d/Functional.cpp).

Here live their schemas (`schemas`), kernels (`kernels`, `meta`), derivatives (`derivatives`), the communications that
nobody has waited for yet (`pending`), and the tensor that waits at its first use (`async_collective_tensor`);
`operators` registers them, when the first is asked for. The functions that programs call are in
`distributed._functional_collectives`.
"""
