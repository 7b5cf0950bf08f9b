"""Kernels without a GPU and without a compiler: Triton's interpreter made strict, on simulated devices.

`driver` implements the interface of `runtime/cuda/driver.py` with the devices of `runtime/cuda/simulated`. `kernel`
has the kernels that it launches. Only `semantics` patches Triton's interpreter.
"""


class UndefinedLoadWarning(UserWarning):
    """A kernel uses lanes of a `tl.load` that its mask excluded and that have no `other`.

    Triton leaves their values undefined. The interpreter reads 0, as GPUs mostly do.
    """
