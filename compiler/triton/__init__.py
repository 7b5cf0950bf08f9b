"""CUDA code generation: fused kernels as Triton source, which calls the scalar functions of eager kernels.

- `pointwise` writes a fused kernel's source and its launch.
- `rows` writes kernels that reduce rows, from the statements that `row_statements` makes of the steps.
- `block_reductions` writes reductions that programs share.
- `products` writes a matmul with an epilogue, from the templates in `product_forms`.
- `gluon_products` writes a warp-specialized matmul, `prologues` the producers of its operands.
- `convolutions` writes a convolution, and `layouts` the copies of its operands.
- `tile_text` and `channel_norms` are shared by these.
- `source_files` keeps sources as files, so that Triton, a debugger and a profiler find their text.

Compiled kernels are kept in the cubin cache, as eager kernels are.
"""
