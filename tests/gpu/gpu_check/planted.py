"""Faults planted on purpose, so that tests can see the check find them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from triten.dispatch.structured import stub as stubs
from triten.dispatch.structured.stub import PlannedKernel, StructuredCall


def plant_fault(name: str) -> None:
    """Put a fault into the CUDA kernel of a stub: ``exp_stub:nothing`` writes nothing, ``:short`` leaves out the
    last element, ``:dies`` ends the process, ``:raises`` raises, ``:hangs`` never ends.
    """
    stub, _, fault = name.partition(":")
    import triten.triton_kernels  # noqa: F401  so that the kernel is there to be replaced

    factory = stubs._stubs[stub]["cuda"]
    stubs._stubs[stub]["cuda"] = FAULTS[fault](factory)


def writes_nothing(factory: Any) -> Any:
    def made(call: StructuredCall) -> PlannedKernel:
        factory(call)
        return PlannedKernel(lambda *_: None)

    return made


def one_short(factory: Any) -> Any:
    """The kernel of a call whose iterator is one element too small, where the memory is one piece."""

    def made(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)

        def into(out: Any, *inputs: Any) -> None:
            import triten as tt

            cuda = tt.library.driver()
            before = bytearray(4)
            import numpy as np

            last = np.frombuffer(before, np.uint8)
            nbytes = call.outputs[0].nbytes
            if nbytes >= 4:
                cuda.copy_device_to_host(last, out.address + nbytes - 4, 0)
            kernel.into(out, *inputs)
            if nbytes >= 4:
                cuda.copy_host_to_device(out.address + nbytes - 4, last, 0)
                cuda.synchronize()

        return PlannedKernel(into)

    return made


def dies(factory: Any) -> Any:
    def made(call: StructuredCall) -> PlannedKernel:
        os._exit(42)

    return made


def raises(factory: Any) -> Any:
    def made(call: StructuredCall) -> PlannedKernel:
        raise ValueError("planted")

    return made


def hangs(factory: Any) -> Any:
    import time

    def made(call: StructuredCall) -> PlannedKernel:
        time.sleep(3600)
        return factory(call)

    return made


FAULTS: dict[str, Callable[[Any], Any]] = {
    "nothing": writes_nothing,
    "short": one_short,
    "dies": dies,
    "raises": raises,
    "hangs": hangs,
}
