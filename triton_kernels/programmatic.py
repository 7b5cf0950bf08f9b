"""Launches that begin while the one before them in the stream still runs: programmatic dependent launch.

A kernel with a constant OVERLAPS begins by waiting for what came before it. On sm_90 and later, where `Launch` sets
that constant, its blocks may be brought to the multiprocessors as soon as all blocks of the launch before have begun
and said so, or have ended. A kernel with LEADS says so, and is launched as any other.

Whatever a kernel with OVERLAPS reads or writes comes behind its wait, which lasts until the launch before has ended,
and so whatever that one waited for: the order of a stream is kept.

Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, ``griddepcontrol``.
"""

from ..runtime.cuda.triton.lazy_triton import cuda_extra, tl, triton

FOLLOWER, LEADER = "OVERLAPS", "LEADS"
"""The constants by which kernels say what they are."""
LEAST_CAPABILITY = 90


@triton.jit
def wait_for_earlier(OVERLAPS: tl.constexpr):
    """The beginning of a kernel with OVERLAPS; the launch after it may begin early in turn."""
    if OVERLAPS:
        cuda_extra.gdc_wait()
        cuda_extra.gdc_launch_dependents()


@triton.jit
def let_later_begin(LEADS: tl.constexpr):
    """The beginning of a kernel with LEADS."""
    if LEADS:
        cuda_extra.gdc_launch_dependents()
