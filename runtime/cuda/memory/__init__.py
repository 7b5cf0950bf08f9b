"""Memory of CUDA devices: the caching allocator, its pools, statistics, history, and page-locked host memory.

The same policy stands over CuPy's pools and the interpreter's simulated memory. `caching_allocator` is the entry;
nothing here launches work.
"""
