"""What a tensor is and where its bytes live (c10).

Here live dtypes, devices, layouts, memory formats, dispatch keys and their sets, tensor specs and
`TensorImpl`, storage, allocators, generators, thread-local state and errors; `cuda/` holds the driver
interface. Nothing here knows an operator, and nothing here imports another folder of the package.
"""
