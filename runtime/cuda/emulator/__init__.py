"""Emulator: executes compiled kernels' PTX on the CPU, on simulated devices without a GPU.

- `ptx` parses the text; `basic_blocks` finds the basic blocks of a function.
- `translate` and `instructions` turn them into NumPy over all threads.
- `machine` runs thread blocks, in the order of `schedule`.
- `device_functions` has the functions that CUDA's device runtime defines, such as ``vprintf``.
- `arithmetic`, `warp`, `shared_memory` and `global_memory` implement instructions and detect errors; `fault` reports
  them.
- `kernel` packs arguments as for a GPU; `machine_code` takes those of Triton's own notation.
- `images` reads a cubin; `driver` implements the interface of `runtime/cuda/driver.py`.

Triton compiles; neither CuPy nor a C compiler is needed.

The additions of sm_90 to sm_80 are in `asynchronous`, which `instructions/units` calls: `bulk_copies` with
`tensor_maps`, `barriers` in shared memory, warpgroup matmuls in `products` (`warp_group`), and happens-before in
`ordered_memory`. The additions of sm_100 are in `tensor_cores`, which `translate_tensor_memory` calls, and in
`tensor_memory`. Block-scaled matmuls are in `block_scales`.
"""
