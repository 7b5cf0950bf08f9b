"""Compiled loops on the CPU without PyTorch: LLVM IR, object code, its cache, and the threads that share a loop.

The twin of `runtime/cuda/triton`. Nothing here knows an operator: kernels write their own loops with it
(`cpu_fallback`), and so does the compiler (`compiler/host`).

Requests, which import little:

- `loop_requests` compiles a kernel's loop at once or after enough work; `background` is the thread that compiles.
- `workspace` lends a thread's scratch memory.

LLVM IR:

- `element_program` has the values of one element, and `element_loop` the loop over them; `llvm_source` prints it.
- `elementary_functions` emits functions as instructions.
- `code` writes a function line by line, with counted loops or basic blocks, and `vector_tile` emits tiles of sums in
  registers.
- `calling_convention` has the entry points that Python and native threads call.

Object code:

- `object_code` compiles a text with `llvm_compiler`, caches it on disk and loads it with `object_loader`.
- `ufunc_loops` finds NumPy's inner loops, which compiled code calls.
- `task_pool` has native threads that share the parts of a loop; `task_pool_source` is their IR.
"""
