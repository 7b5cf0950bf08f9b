"""Programmatic dependent launch: launches that begin while the previous one in the stream still runs.

A kernel with a constant OVERLAPS begins by waiting for the previous launch. On sm_90 and later, `Launch` sets
that constant, and the kernel's blocks may become resident once all blocks of the previous launch have
signaled or ended. A kernel with LEADS sends that signal, and is launched as any other.

Every read and write of a kernel with OVERLAPS comes after its wait, which lasts until the previous launch has
ended, and with it every launch that it waited for. This keeps the stream's order.

Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, ``griddepcontrol``.
"""

from ..runtime.cuda.triton.lazy_triton import cuda_extra, tl, triton

FOLLOWER, LEADER = "OVERLAPS", "LEADS"
"""The constants by which kernels say what they are."""
MIN_CAPABILITY = 90


@triton.jit
def wait_for_earlier(OVERLAPS: tl.constexpr):
    """Begin a kernel that OVERLAPS its predecessor: allow the next launch to start, then wait for the previous one."""
    if OVERLAPS:
        cuda_extra.gdc_wait()
        cuda_extra.gdc_launch_dependents()


@triton.jit
def let_later_begin(LEADS: tl.constexpr):
    """Begin a kernel that LEADS: allow the next launch to start early."""
    if LEADS:
        cuda_extra.gdc_launch_dependents()
