"""CPU code generation: fused kernels as compiled loops or blocked NumPy passes, and the replay of a schedule.

Kernels as functions of arrays:

- `pointwise` runs a fused kernel as NumPy passes over blocks that stay in the cache; `rows` does so for reductions.
- `block_reductions` has reductions that blocks share; `partial_results` combines their partial results.
- `numpy_calls` writes each NumPy call.

Compiled loops, if llvmlite is installed:

- `loops` runs a fused kernel as loops; `stages` splits a program into loops and NumPy calls between them.
- `lowering` lowers operators to an `element_program` with `arithmetic_rows` and `activation_rows`.
- These tables see a call as an `operator_step`.
- `elementary_functions` emits functions as instructions, some of which hold for a range (`ranged_loops`).
- `llvm_source` prints a loop as LLVM IR.
- `object_code` compiles it with `llvm_compiler`, caches it on disk and loads it with `object_loader`.
- `reduction_loops` are loops that reduce, into the `accumulators` of each reduction, over a `reduction_nest`.
- `function_check` compares functions and sums bitwise with those of eager kernels.

Row kernels:

- `row_loops` runs a kernel over rows as one loop, a `row_program`; `row_source` prints it, with sums over rows.
- `reduction_rows` lowers reductions; `reduction_source`, `spread_source` and `lane_sums` emit their functions.
- These functions are written with `function_text`; `ufunc_loops` finds NumPy's loops of ufuncs.
- `tiled_loops` runs a fused kernel as one loop whose rows are tiles.
- `draws` fuses dropout into both, `picks` fuses gathers, and `joined_loops` fuses `cat`.

Loops for eager calls, which kernels reach through `makers`:

- `eager_loops` has single operators, `draw_loops` random numbers, and `run_sums` sums of 16-bit floats.
- `line_loops` reduces lines of float32; `recurrent_loops` has steps of recurrent layers; `gelu_loops` has gelu, from
  `gelu_rows` and `hyperbolic_tangent`.
- `convolution_source` has convolutions, and `channel_source` norms of channels.

All loops use `calling_convention`, and `code` writes IR line by line. Threads of a `task_pool`, whose IR is
`task_pool_source`, share the parts of a loop.

`replay` turns a schedule into one function of tensors for any device, written as Python source. Eager kernels come
from `cpu_fallback`, through the operators.
"""
