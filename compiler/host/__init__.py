"""Code for the CPU: fused kernels as compiled loops, or as NumPy's passes over blocks, and the replay of a schedule.

`pointwise` makes a fused kernel a function of arrays, as passes of NumPy over blocks that stay in the cache, and `rows`
one that reduces rows; `block_reductions` has reductions that blocks share, whose `partial_results` are combined in the
end. `numpy_calls` writes each call. Where llvmlite is installed `loops` does so: `lowering` turns operators into an
`element_program` by `arithmetic_rows` and `activation_rows`, which see a call as an `operator_step`.
`stages` cuts a program into loops and what NumPy computes between them, `llvm_source` writes a loop as LLVM's text, and
`object_code` compiles it, keeps it on disk and loads it; `reduction_loops` are loops that reduce what they compute.

`replay` makes a schedule one function of tensors, which serves every device. Functions of Python are written out as
source. Kernels come from `cpu_fallback`, through the operators.
"""
