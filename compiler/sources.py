"""The sources of a schedule's kernels, and how they run, for people."""

from __future__ import annotations

from collections.abc import Sequence

from .product_kernel import ProductKernel
from .schedule import Kernel, ReductionKernel, RowsKernel, Schedule


def sources_of(schedules: Sequence[Schedule]) -> dict[str, str]:
    """Return the source of each fused kernel for CUDA, by its name."""
    sources = {}
    for schedule in schedules:
        for kernel in schedule.kernels:
            if kernel.device.type == "cuda":
                name, text = _written(kernel)
                sources[name] = text
    return sources


def _written(kernel: Kernel) -> tuple[str, str]:
    """Return the name and the source of a kernel for CUDA."""
    if isinstance(kernel, ProductKernel):
        from .triton.products import write_product_kernel

        return kernel.name, write_product_kernel(kernel)
    if isinstance(kernel, ReductionKernel):
        from .triton.block_reductions import write_reduction_kernel

        reduced = write_reduction_kernel(kernel)
        return reduced.name, reduced.text
    if isinstance(kernel, RowsKernel):
        from .triton.rows import write_rows_kernel

        rows = write_rows_kernel(kernel)
        return rows.name, rows.text
    from .triton.pointwise import write_kernel

    written = write_kernel(kernel)
    return written.name, written.text


def execution_of(kernel: Kernel) -> str:
    """Describe how a fused kernel runs."""
    if isinstance(kernel, ProductKernel) or kernel.device.type == "cuda":
        return "one Triton kernel"
    if isinstance(kernel, RowsKernel):
        from .host.rows import execution_of_rows

        return execution_of_rows(kernel)
    if isinstance(kernel, ReductionKernel):
        from .host.block_reductions import execution_of_reductions

        return execution_of_reductions(kernel)
    from .host.pointwise import execution_on_host

    return execution_on_host(kernel)
