"""CPU code generation: fused kernels as compiled loops or blocked NumPy passes, and the replay of a schedule.

Only code that lowers the compiler's graph lives here. `runtime/cpu` prints and compiles LLVM IR. Loops of single
operators, and IR that emits their order of operations, live with the eager kernels in `cpu_fallback`.

Kernels as functions of arrays:

- `pointwise` runs a fused kernel as NumPy passes over blocks that stay in the cache; `rows` does so for reductions.
- `block_reductions` has reductions that blocks share; `partial_results` combines their partial results.
- `numpy_calls` writes each NumPy call.

Compiled loops, if llvmlite is installed:

- `loops` runs a fused kernel as loops; `stages` splits a program into loops and NumPy calls between them.
- `lowering` lowers operators to an element program, by the tables of `cpu_fallback/elementwise`.
- Some functions hold for a range (`ranged_loops`).
- `reduction_loops` are loops that reduce, into the `accumulators` of each reduction, over a `reduction_nest`.

Row kernels:

- `row_loops` runs a kernel over rows as one loop, a `row_program`; `row_source` prints it, with sums over rows.
- `cpu_fallback/reduction/reduction_rows.py` has the table that lowers reductions.
- `tiled_loops` runs a fused kernel as one loop whose rows are tiles.
- `draws` fuses dropout into both, `picks` fuses gathers, and `joined_loops` fuses `cat`.

`eager_loops` compiles loops of eager calls with these tables; `dispatch/structured/compiled_loops.py` requests them.

`replay` turns a schedule into one function of tensors for any device, written as Python source. Eager kernels come
from `cpu_fallback`, through the operators.
"""
