"""Memory that runs out inside the n-th kernel, before it has computed or after, as NumPy's own arrays may have it."""

from contextlib import contextmanager

from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured.stub import recorders

WORDS = "no memory inside a kernel, as the campaign wants it"


class Kernels:
    """Counts calls of kernels, of which one fails.

    Args:
        at: its number, from 0; -1 for none.
        after: whether it has computed by then.
    """

    def __init__(self, at=-1, after=False):
        self.at = at
        self.after = after
        self.count = 0

    def surround(self, kernel, dtype, function):
        """Wrap the kernel in a counter."""

        def counted(*data):
            self.count += 1
            if self.count - 1 != self.at:
                return function(*data)
            if self.after:
                function(*data)
            raise MemoryError(f"{WORDS}: {kernel}")

        return counted


@contextmanager
def failing(at=-1, after=False):
    """Fail the kernel call number `at` within the block; yield the counter."""
    kernels = Kernels(at, after)
    recorders.append(kernels.surround)
    Dispatcher.singleton().forget_all()
    try:
        yield kernels
    finally:
        recorders.remove(kernels.surround)
        Dispatcher.singleton().forget_all()
