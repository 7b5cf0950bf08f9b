"""State of the L2 cache when a timed run begins.

A run that finds its operands in the L2 is faster than in a program that has touched other memory in between. A flush
therefore replaces the contents of the L2. `read` leaves clean lines: it reduces a buffer larger than the L2. `memset`
leaves dirty lines, whose write-backs the next run waits for: up to the size of the L2, which is 50 MB on an H100 and
more than many runs move. `none` leaves the lines of the previous run.
"""

from __future__ import annotations

from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.device import device as Device
from ...runtime.scalar_type import float32
from ...runtime.tensor_spec import TensorSpec
from ..reduction.reduction import REDUCTIONS, reduction

FLUSHES = ("read", "memset", "none")
L2_SIZES = 2
"""Multiple of the L2's size that a flush touches at least, whatever the L2 keeps of its earlier contents."""


class Flush:
    """Flush of a device's L2 on the current stream. The host does not wait for it.

    Args:
        device: A CUDA device.
        how: One of `FLUSHES`.
        nbytes: Size of the buffer, of which a flush of the wanted duration needs more than the L2's size.
        whole: If True, use at least twice the size of the L2. Default: True.

    Raises:
        ValueError: for another `how`.
    """

    def __init__(self, device: Device, how: str, nbytes: int, *, whole: bool = True) -> None:
        if how not in FLUSHES:
            raise ValueError(f"flush: expected one of {', '.join(FLUSHES)}, got {how!r}")
        self.how = how
        self.nbytes = 0
        self._device, self._turn = device, 0
        if how == "none":
            return
        index, allocate = device.resolved_index, get_allocator("cuda").allocate
        with device_guard(index) as cuda:
            least = L2_SIZES * cuda.properties(index).L2_cache_size if whole else 0
            self.nbytes = -(-max(nbytes, least) // float32.itemsize) * float32.itemsize
            self._buffer = allocate(self.nbytes, device)
            # Planned once: a tuner's candidates for the same kernel do not reach the flush.
            spec = TensorSpec.contiguous((self.nbytes // float32.itemsize,), float32, device)
            out = TensorSpec.contiguous((), float32, device)
            self._total = allocate(out.nbytes, device)
            call = StructuredCall("sum", {"self": spec}, ("self",), (out,), None, device, {"dims": (0,)})
            self._add_up = reduction(REDUCTIONS["sum_stub"])(call).into
            cuda.memset(self._buffer.address, 0, self.nbytes, cuda.current_stream(index))

    def __call__(self) -> None:
        """Enqueue the flush."""
        if self.how == "read":
            self._add_up(self._total, self._buffer)
        elif self.how == "memset":
            self._turn += 1
            index = self._device.resolved_index
            with device_guard(index) as cuda:
                cuda.memset(self._buffer.address, self._turn & 0xFF, self.nbytes, cuda.current_stream(index))
