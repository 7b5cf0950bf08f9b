"""Empty kernels, by their number of arguments: they measure the launch alone."""

import triton


@triton.jit
def of_1(a0):
    pass


@triton.jit
def of_3(a0, a1, a2):
    pass


@triton.jit
def of_4(a0, a1, a2, a3):
    pass


@triton.jit
def of_9(a0, a1, a2, a3, a4, a5, a6, a7, a8):
    pass


@triton.jit
def of_20(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19):
    pass
