"""TensorIterator: broadcasting, promotion, overlap, stride order and coalescing, decided from specs.

`type_promotion`, `broadcast` and `overlap` hold PyTorch's rules. `tensor_iterator_config` holds an operator's
settings. `tensor_iterator` builds the iteration and runs loops over host memory. `loops.cpu_kernel` is the public way
to write a host kernel; it runs on the threads of `runtime/parallel.py`. Kernels themselves do not belong here.
"""
