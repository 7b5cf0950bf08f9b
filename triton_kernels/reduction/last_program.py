"""The program of a launch that ends last, which finishes what all of them began: a reduction in one launch.

Programs leave their parts in memory, and each adds one to a counter. The one that finds all others there combines the
parts in the order of the programs, whichever it is, so that results do not depend on the order in which they end. It
sets the counter back to zero for the next launch, which on the same stream begins after it (`stream_counters.py`).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def is_last(counter, programs):
    """Whether all other programs have been here, so that what they stored before can be read; the counter is then 0."""
    # Every lane's stores come before the one lane that counts.
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    tl.atomic_xchg(counter, 0, mask=last, sem="relaxed")
    return last
