"""Faults planted on purpose, so that tests can see the check find them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt
from triten.dispatch.structured import stub as stubs
from triten.dispatch.structured.stub import PlannedKernel, StructuredCall, load_kernels


def plant_faults(described: str) -> None:
    """Put faults into the CUDA kernels of stubs, with commas between: ``exp_stub:nothing`` writes nothing, ``:short``
    leaves out the last element, ``:raises`` raises, ``:dies`` ends the process, ``:hangs`` never ends.
    """
    load_kernels("cuda")

    for each in described.split(","):
        stub, _, fault = each.partition(":")
        stubs._stubs[stub]["cuda"] = FAULTS[fault](stubs._stubs[stub]["cuda"])


def writes_nothing(factory: Any) -> Any:
    def made(call: StructuredCall) -> PlannedKernel:
        factory(call)
        return PlannedKernel(lambda *_: None)

    return made


def one_short(factory: Any) -> Any:
    """Return the kernel with an injected fault: it leaves the last four bytes of its output unchanged."""

    def made(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)

        def into(out: Any, *inputs: Any) -> None:
            cuda = tt.library.driver()
            before, place = np.empty(4, np.uint8), out.address + call.outputs[0].nbytes - 4
            cuda.copy_device_to_host(before, place, 0)
            kernel.into(out, *inputs)
            cuda.copy_host_to_device(place, before, 0)
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
