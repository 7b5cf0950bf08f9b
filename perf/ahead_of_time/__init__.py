"""The gate without a GPU: kernels compiled for real targets and held to what is declared beside them.

`samples` are calls of operators; `recording` runs them on a driver that notes each launch; `compilation` and
`worker` compile what was noted, in processes of their own; `disassembly` reads the result, of many kernels at a time
(`combined_cubin`), `parameters` what it takes at a launch; `checks` holds it to the declarations of
`triton_kernels.budget`; `report` writes the table. `perf/aot.py` is the command.
"""
