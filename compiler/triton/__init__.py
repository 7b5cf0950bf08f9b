"""Code for CUDA: fused kernels as Triton source, which calls the scalar functions that eager kernels are made of.

`pointwise` writes a fused kernel's source and its launch, `rows` that of one which reduces rows, from the statements
that `row_statements` makes of its steps, and `block_reductions` that of reductions which programs share; `products`
those of a product with an epilogue, in the texts of `product_forms`, `gluon_products` of one whose warps are
specialised, `prologues` of what makes its operands, `convolutions` of a convolution, and `layouts` of the copies of its
operands; `tile_text` and `channel_norms` have what these share. `source_files` keeps sources as files,
so that Triton, a debugger and a profiler find their text. What a source is compiled to is kept in the store of cubins,
as eager kernels are.
"""
