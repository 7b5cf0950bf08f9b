"""Calls leave no allocation behind, and tables of decisions are bounded.

``TRITEN_STRESS_CALLS`` sets the number of calls; the default keeps the suite quick.
"""

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.dispatch.core.operator_entry import MAX_PLANS
from triten.dispatch.core.overload_packet import packets
from triten.runtime import tensor_spec

CALLS = int(os.environ.get("TRITEN_STRESS_CALLS", "20000"))
SLACK = 200
"""Blocks that the interpreter itself may keep, free lists and caches, whatever the number of calls."""

x, w = tt.ones(4, 4), tt.ones(4, 4, requires_grad=True)
relu = tt.ops.aten.relu.default


def step() -> None:
    (x @ w).relu().sum().backward()
    w.grad = None


PROGRAMS: dict[str, Callable[[], Any]] = {
    "add": lambda: x + x,
    "number": lambda: x * 2.0,
    "view": lambda: x.view(16)[2:5],
    "in place": lambda: x.mul_(1.0),
    "out": lambda: tt.add(x, x, out=x),
    "overload": lambda: relu(x),
    "backward": step,
    "meta": lambda: tt.empty(3, device="meta").exp(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_allocate_nothing_lasting(name: str) -> None:
    program = PROGRAMS[name]
    for _ in range(50):
        program()
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(CALLS):
            program()
        after = sys.getallocatedblocks()
    finally:
        gc.enable()
    assert after - before < SLACK, f"{after - before} blocks after {CALLS} calls of {name}"


def test_tables_are_bounded() -> None:
    packet, entry = packets["relu"], relu._entry
    for size in range(1, MAX_PLANS + 200):
        relu(tt.empty(size, device="meta"))
        tt.empty(size, device="meta").relu()
    assert len(entry._plans) <= MAX_PLANS
    assert len(packet.plans) <= MAX_PLANS
    assert len(tensor_spec._table) <= tensor_spec.MAX_SPECS
