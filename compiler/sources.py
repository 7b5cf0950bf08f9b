"""The sources of a schedule's kernels, and how they run, for people."""

from __future__ import annotations

from collections.abc import Sequence

from .schedule import FusedKernel, Schedule


def sources_of(schedules: Sequence[Schedule]) -> dict[str, str]:
    """The source of each fused kernel for CUDA, by its name."""
    found = {}
    for schedule in schedules:
        for kernel in schedule.kernels:
            if kernel.domain.device.type == "cuda":
                from .triton.pointwise import write_kernel

                written = write_kernel(kernel)
                found[written.name] = written.text
    return found


def execution_of(kernel: FusedKernel) -> str:
    """How a fused kernel runs, in words."""
    if kernel.domain.device.type == "cuda":
        return "one Triton kernel"
    from .host.pointwise import execution_on_host

    return execution_on_host(kernel)
