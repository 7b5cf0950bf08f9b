"""Kernels without a GPU and without a compiler: Triton's interpreter made strict, on simulated devices.

`driver` fills the interface of `runtime/cuda/driver.py` with the devices of `runtime/cuda/simulated`, `kernel` has what
it launches; `semantics` is the one place where Triton's interpreter is mended.
"""


class UndefinedLoadWarning(UserWarning):
    """A kernel uses lanes of a `tl.load` that its mask excluded and that have no `other`.

    Triton leaves their values undefined. The interpreter reads 0, as GPUs mostly do.
    """
