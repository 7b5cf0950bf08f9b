"""The sources of a schedule's kernels, and how they run, for people."""

from __future__ import annotations

from collections.abc import Sequence

from .product_kernel import ProductKernel
from .schedule import FusedKernel, RowsKernel, Schedule


def sources_of(schedules: Sequence[Schedule]) -> dict[str, str]:
    """The source of each fused kernel for CUDA, by its name."""
    found = {}
    for schedule in schedules:
        for kernel in schedule.kernels:
            if kernel.device.type == "cuda":
                from .triton.pointwise import write_kernel
                from .triton.rows import write_rows_kernel

                if isinstance(kernel, ProductKernel):
                    from .triton.products import write_product_kernel

                    found[kernel.name] = write_product_kernel(kernel)
                    continue
                written = (
                    write_rows_kernel(kernel) if isinstance(kernel, RowsKernel) else write_kernel(kernel)
                )
                found[written.name] = written.text
    return found


def execution_of(kernel: FusedKernel | RowsKernel | ProductKernel) -> str:
    """How a fused kernel runs, in words."""
    if isinstance(kernel, ProductKernel) or kernel.device.type == "cuda":
        return "one Triton kernel"
    if isinstance(kernel, RowsKernel):
        from .host.rows import execution_of_rows

        return execution_of_rows(kernel)
    from .host.pointwise import execution_on_host

    return execution_on_host(kernel)
