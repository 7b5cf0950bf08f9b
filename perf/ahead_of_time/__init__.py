"""Checks without a GPU: compile kernels for real targets and compare them with their declarations.

- `samples` are calls of operators; `recording` runs them on a driver that records each launch.
- `compilation` and `worker` compile the recorded launches in separate processes.
- `disassembly` reads the machine code, many kernels at a time (`combined_cubin`); `parameters` reads the
  launch parameters.
- `checks` compares the result with the declarations of `triton_kernels.budget`.
- `report` writes the table.

`perf/aot.py` is the command.
"""
