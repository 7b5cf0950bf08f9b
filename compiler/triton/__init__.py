"""CUDA code generation: fused kernels as Triton source, which calls the scalar functions of eager kernels.

- `pointwise` writes a fused kernel's source and its launch.
- `rows` writes kernels that reduce rows, from the statements that `row_statements` makes of the steps.
- `block_reductions` writes reductions that programs share.
- `products` writes the epilogue of a matmul or convolution, and `prologues` the producers of its operands. The kernel
  itself is the eager one, which `product_forms` calls with these functions.
- `gluon_products` writes the epilogue of a warp-specialized matmul.
- `convolutions` has the epilogue's parameters in convolutions, and `layouts` writes the copies of their operands.
- `tile_text` and `channel_norms` are shared by these.
- `source_files` keeps sources as files, so that Triton, a debugger and a profiler find their text.

Compiled kernels are kept in the cubin cache, as eager kernels are.
"""
