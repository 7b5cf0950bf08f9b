"""Tensor metadata and storage (c10).

This folder has dtypes, devices, layouts, memory formats, dispatch keys and their sets, tensor specs and `TensorImpl`,
storage, allocators, generators, thread-local state, the threads of `parallel_for`, and errors. `cuda/` has the driver
interface; `cpu/` compiles loops. Nothing here depends on an operator, and nothing here imports another folder of the
package.
"""
