"""The launches that compiling a graph plans, and which of their kernels are worth a process of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.cubin_store import store
from ...runtime.cuda.triton.kernel_archive import find_archived
from ...runtime.cuda.triton.kernel_key import KernelRequest, kernel_key
from ...triton_kernels.launch import Launch, planned
from ..triton.source_files import PREFIX

MIN_KERNELS = 2
"""Start processes only if the cache lacks at least this many kernels."""


@contextmanager
def compiled_in_parallel() -> Iterator[None]:
    """Compile the kernels that the block plans in worker processes at its end.

    The outermost of nested blocks does it for all, such as for a graph's forward and backward together.
    """
    if planned.launches is not None:
        yield
        return
    launches: list[Launch] = []
    planned.launches = launches
    try:
        yield
    finally:
        planned.launches = None
    if len(launches) >= MIN_KERNELS and driver().stores_kernels:
        from .pool import compile_all, thread_count

        count = thread_count()
        if count >= MIN_KERNELS:
            missing = missing_kernels(launches, driver().cuda_version)
            if len(missing) >= MIN_KERNELS:
                compile_all(missing, driver().cuda_version, count)


def missing_kernels(launches: Sequence[Launch], cuda: int) -> list[KernelRequest]:
    """Return the kernels of generated sources that launches need and that neither the cubin cache nor an archive has.

    Each kernel is the variant for addresses that are multiples of 16, which nearly all are.
    """
    kernel_cache = store()
    if kernel_cache is None:
        return []
    missing: dict[str, KernelRequest] = {}
    for launch in launches:
        request = launch.request()
        if not request.kernel.__module__.startswith(PREFIX):
            continue
        key = kernel_key(request, cuda)
        if key is None or key in missing or find_archived(request, cuda) is not None:
            continue
        if kernel_cache.read(key) is None:
            missing[key] = request
    return list(missing.values())
