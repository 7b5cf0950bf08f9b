"""Last-program reduction: the program that finishes last combines the parts of all, in one launch.

Programs write their parts to memory, and each increments a counter. The program that finds all others counted
combines the parts in program order, so that results do not depend on the order in which programs end. It
resets the counter to zero for the next launch, which on the same stream begins after it
(`stream_counters.py`).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def is_last(counter, programs):
    """Return True in the program that arrives last, which can read what the others stored; the counter is then 0."""
    # Every lane's stores come before the one lane that counts.
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    tl.atomic_xchg(counter, 0, mask=last, sem="relaxed")
    return last
