"""Parallel compilation of a new graph's kernels by several processes, each of which puts them into the cubin cache.

`planned` collects the launches that compiling a graph plans, and compiles those that the cache lacks; `pool` has the
processes, and `worker` runs in each. This is only an optimization: a kernel that is missing at its first launch is
compiled then.
"""
