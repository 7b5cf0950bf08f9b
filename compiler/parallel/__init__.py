"""Kernels of a new graph compiled by several processes at once, each of which puts them into the store.

`planned` collects the launches that compiling a graph plans, and has those compiled that the store lacks; `pool` is the
processes, `worker` what runs in one. Nothing here is needed for a right result: a kernel that is not in the store when
it is first launched is compiled then.
"""
