"""TensorIterator: broadcasting, promotion, overlap, stride order and coalescing, decided from specs.

`type_promotion`, `broadcast` and `overlap` hold PyTorch's rules. `tensor_iterator_config` says what an operator
asks for; `tensor_iterator` decides it and runs loops over host memory; `loops.cpu_kernel` is the public way to
write a host kernel, `parallel` the threads under it. Kernels themselves do not belong here.
"""
