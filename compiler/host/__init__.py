"""Code for the CPU: fused kernels as passes of NumPy over blocks that stay in the cache, and the replay of a schedule.

`pointwise` makes a fused kernel a function of arrays, `rows` one that reduces rows; `replay` makes a schedule one
function of tensors, which serves every device. All are written out as Python's source. Kernels come from
`cpu_fallback`, through the operators.
"""
