"""CuPy arrays in triten's memory pool, without a GPU: CuPy takes the addresses and frees them."""

import pytest

pytest.importorskip("cupy", reason="cupy is not installed")

import cupy

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.cupy import allocator as cupy_memory
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.inspection import nested_stats, snapshot_segments
from triten.runtime.device import device as Device


@pytest.fixture
def shared(monkeypatch):
    """Return an allocator from which CuPy takes its memory, on stream 5 of device 0."""
    allocator = CachingAllocator(address_driver())
    monkeypatch.setattr(cupy_memory, "current_place", lambda: (0, 5))
    cupy.cuda.set_allocator(lambda nbytes: cupy_memory.allocate_for_cupy(nbytes, allocator))
    yield allocator
    cupy.cuda.set_allocator(None)


def held(allocator):
    return nested_stats(allocator, 0)["requested_bytes"]["all"]["current"]


def test_arrays_and_tensors_share_blocks(shared):
    array = cupy.ndarray((100,), "f4")
    assert held(shared) == 400
    assert snapshot_segments(shared)[0]["stream"] == 5
    address = array.data.ptr
    view = array[10:]
    del array
    assert held(shared) == 400, "a view holds the memory"
    del view
    assert held(shared) == 0
    data = shared.allocate(400, Device("cuda", 0), 5)
    assert data.address == address
    del data
    assert cupy.ndarray((50,), "f8").data.ptr == address


def test_an_array_without_elements(shared):
    assert cupy.ndarray((0, 3), "f4").nbytes == 0
    assert held(shared) == 0


@pytest.mark.interpreter
def test_memory_of_simulated_devices_is_refused():
    with pytest.raises(RuntimeError, match="expected devices driven by CuPy, got InterpreterDriver"):
        cupy_memory.allocate_for_cupy(100, CachingAllocator(driver()))
