"""Shared fixtures of the profiler tests: readers of its events, and a check for leftover state."""

import pytest

import triten as tt
from triten.dispatch.autograd import engine
from triten.dispatch.autograd.node import Node
from triten.dispatch.core.operator_entry import observers
from triten.dispatch.structured.stub import recorders
from triten.profiler import (
    DeviceType,
)
from triten.runtime.allocator import HostAllocator, get_allocator
from triten.runtime.cuda.driver import CompiledKernel, driver
from triten.runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR


@pytest.fixture
def tree():
    """Return a function that reads a profile's host events as pairs of their names and their parents'."""

    def tree(prof):
        events = [e for e in prof.events() if e.device_type is DeviceType.CPU]
        return [(e.name, None if e.cpu_parent is None else e.cpu_parent.name) for e in events]

    return tree


@pytest.fixture
def named():
    """Return a function that finds a profile's only event of a name."""

    def named(prof, name):
        found = [e for e in prof.events() if e.name == name]
        assert len(found) == 1, (name, [e.name for e in prof.events()])
        return found[0]

    return named


@pytest.fixture
def own_pool():
    """Use a separate memory pool, so that the test's blocks do not come from blocks cached by earlier tests."""
    if not tt.cuda.is_available():
        yield
        return
    with tt.cuda.use_mem_pool(tt.cuda.MemPool()):
        yield


def nodes():
    classes, pending = [], [Node]
    while pending:
        cls = pending.pop()
        classes.append((cls, vars(cls).get("backward")))
        pending += cls.__subclasses__()
    return classes


@pytest.fixture
def library(request):
    """Yield a library in the test's own namespace."""
    with tt.library.Library(request.function.__name__, "DEF") as lib:
        yield lib, getattr(tt.ops, request.function.__name__)


@pytest.fixture(autouse=True)
def nothing_is_left():
    if tt.cuda.is_available():
        driver()
    kernels = [(cls, vars(cls).get("launch")) for cls in CompiledKernel.__subclasses__()]
    before, accumulate = dict(nodes()), engine.accumulate
    yield
    assert observers == [] and recorders == []
    assert all(before.get(cls, backward) is backward for cls, backward in nodes())
    assert engine.accumulate is accumulate
    assert [(cls, vars(cls).get("launch")) for cls in CompiledKernel.__subclasses__()] == kernels
    if tt.cuda.is_available():
        assert not {"copy_host_to_device", "copy_device_to_host", "memset"} & set(vars(driver()))
    assert isinstance(get_allocator("cpu"), HostAllocator) and get_allocator("cuda") is CUDA_ALLOCATOR
