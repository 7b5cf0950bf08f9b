"""Code for the CPU: fused kernels as compiled loops, or as NumPy's passes over blocks, and the replay of a schedule.

`pointwise` makes a fused kernel a function of arrays, as passes of NumPy over blocks that stay in the cache, and `rows`
one that reduces rows; `block_reductions` has reductions that blocks share, whose `partial_results` are combined in the
end. `numpy_calls` writes each call. Where llvmlite is installed `loops` does so: `lowering` turns operators into an
`element_program` by `arithmetic_rows` and `activation_rows`, which see a call as an `operator_step`.
`elementary_functions` writes functions as instructions, some of which hold for numbers of a range (`ranged_loops`).
`stages` cuts a program into loops and what NumPy computes between them, `llvm_source` writes a loop as LLVM's text, and
`object_code` has it compiled by `llvm_compiler`, keeps it on disk and has it loaded by `object_loader`;
`reduction_loops` are loops that reduce what they compute,
into the `accumulators` of each reduction, as a `reduction_nest` has it.

A kernel over rows is one loop by `row_loops`: a `row_program` has reductions (`reduction_rows` says which), for which
`reduction_source`, `spread_source` and `lane_sums` have functions by `function_text`, and ufuncs, for which
`ufunc_loops` finds NumPy's; `row_source` writes its text, with sums over rows. `tiled_loops` makes a fused kernel one,
too, whose rows are tiles. `draws` has dropout in both, `picks` elements at numbers, and `joined_loops` has `cat`.
`function_check` compares functions and sums with those of eager kernels.

`eager_loops` makes loops of single operators for eager calls; `draw_loops` has those of random numbers, `run_sums`
those of sums, `convolution_source` those of convolutions, `channel_source` those of norms of channels; kernels reach
them by `makers`. `calling_convention` is what stands around each loop, and `code` writes one line by line. Threads of a
`task_pool`, whose text is `task_pool_source`, share the parts of a loop.

`replay` makes a schedule one function of tensors, which serves every device. Functions of Python are written out as
source. Kernels come from `cpu_fallback`, through the operators.
"""
