"""Functions for generated Triton kernels (`torch._inductor.runtime`): `triton_helpers`."""
