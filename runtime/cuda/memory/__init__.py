"""CUDA memory: the caching allocator, its pools, statistics and history, and page-locked host memory.

The same allocator runs over CuPy's pools and over the interpreter's simulated memory. `caching_allocator` is the
entry point. Nothing here launches work.
"""
