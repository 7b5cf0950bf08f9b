"""Kernels as the compiler made them, without a GPU: the PTX is executed on the CPU, on simulated devices.

`ptx` takes the text apart, `basic_blocks` finds the blocks of a function, `translate` and `instructions` turn them into
NumPy over all threads, `machine` runs blocks of threads, in the order of `schedule`; `arithmetic`, `warp`,
`shared_memory` and `global_memory` say what instructions do, and find what a kernel must not do: `fault` names it.
`kernel` packs arguments as for a GPU, `machine_code` takes those of Triton's own notation, `images` says what a cubin
holds, `driver` fills the interface of `runtime/cuda/driver.py`. Triton compiles; neither CuPy nor a C compiler is
needed.

What sm_90 has beyond sm_80 is in `asynchronous`, which `instructions/units` calls: `bulk_copies` by `tensor_maps`,
`barriers` in shared memory, `products` by four warps (`warp_group`), and in `ordered_memory` what has happened before
what. What sm_100 has beyond that is in `tensor_cores`, which `translate_tensor_memory` calls, and in `tensor_memory`;
products with scales of blocks are in `block_scales`.
"""
