"""Calls of the CuPy driver for streams, events, host memory and peer devices, and the calls that it rejects
itself.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from triten.runtime.errors import OutOfMemoryError

OURS = ["driver", "copies", "devices", "graph", "errors", "kernel"]


def _fake_modules():
    path = Path(__file__).parent / "fake_cupy.py"
    spec = importlib.util.spec_from_file_location("fake_cupy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.modules()


@pytest.fixture
def fake(monkeypatch):
    """Return (driver, runtime): the real driver over fake CUDA bindings."""
    modules, runtime = _fake_modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    names = [f"triten.runtime.cuda.cupy.{name}" for name in OURS]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    driver = importlib.import_module(names[0]).CuPyDriver(2)
    yield driver, runtime
    for name in names:
        sys.modules.pop(name, None)


def test_streams_do_not_synchronise_with_the_default_one(fake):
    cuda, runtime = fake
    stream = cuda.create_stream(1, -2)
    assert runtime.log == [("streamCreateWithPriority", 1, 1, -2)] and runtime.device == 0
    assert cuda.stream_priority(stream) == -2
    cuda.check_stream(1, stream)
    with pytest.raises(RuntimeError, match="of device 1 was given for device 0"):
        cuda.check_stream(0, stream)


def test_the_range_of_priorities_is_found_by_clamping(fake):
    cuda, runtime = fake
    assert cuda.stream_priority_range() == cuda.stream_priority_range() == (0, -5)
    assert len(runtime.log) == 2 and not runtime.priorities


def test_a_destroyed_stream_never_reaches_cuda(fake):
    cuda, runtime = fake
    stream, event = cuda.create_stream(0), cuda.create_event()
    cuda.destroy_stream(stream)
    for use in (
        lambda: cuda.query_stream(stream),
        lambda: cuda.synchronize_stream(stream),
        lambda: cuda.stream_priority(stream),
        lambda: cuda.record_event(event, stream),
        lambda: cuda.wait_event(stream, event),
        lambda: cuda.destroy_stream(stream),
    ):
        with pytest.raises(
            RuntimeError, match=r"CUDA error: invalid resource handle: stream 0x\w+ was destroyed"
        ):
            use()
    with pytest.raises(RuntimeError):
        cuda.check_stream(0, stream)
    with pytest.raises(RuntimeError, match="the default stream cannot be destroyed"):
        cuda.destroy_stream(0)
    runtime.priorities[stream] = 0
    cuda.check_stream(0, stream)
    assert cuda.query_stream(stream) is False, "somebody else was given the address"


def test_events_and_their_flags(fake):
    cuda, runtime = fake
    flags = [
        runtime.events[cuda.create_event(*given)]
        for given in ((), (True,), (False, True), (False, False, True), (True, True))
    ]
    assert flags == [2, 0, 3, 6, 1]
    event = cuda.create_event()
    cuda.record_event(event, 0)
    cuda.wait_event(0, event)
    cuda.synchronize_event(event)
    assert [entry[0] for entry in runtime.log] == ["eventRecord", "streamWaitEvent", "eventSynchronize"]
    assert cuda.query_event(event) and not cuda.query_event(cuda.create_event(timing=True))
    assert cuda.query_event(cuda.import_event(cuda.export_event(event)))


def test_a_destroyed_event_never_reaches_cuda(fake):
    cuda, _ = fake
    event = cuda.create_event()
    cuda.destroy_event(event)
    for use in (
        lambda: cuda.record_event(event, 0),
        lambda: cuda.wait_event(0, event),
        lambda: cuda.query_event(event),
        lambda: cuda.synchronize_event(event),
        lambda: cuda.elapsed(event, event),
        lambda: cuda.export_event(event),
        lambda: cuda.destroy_event(event),
    ):
        with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle: event 0x"):
            use()


def test_host_memory(fake):
    cuda, runtime = fake
    address = cuda.malloc_host(4096)
    assert runtime.log == [("hostAlloc", 4096, 1)] and cuda.is_page_locked(address)
    cuda.free_host(address)
    assert not cuda.is_page_locked(address) and not cuda.is_page_locked(0x1)
    with pytest.raises(OutOfMemoryError, match="the host could not give"):
        cuda.malloc_host(1 << 30)
    with pytest.raises(RuntimeError, match="700"):
        cuda.is_page_locked(0xBAD)


def test_mapped_memory(fake):
    cuda, runtime = fake
    address = cuda.malloc_mapped(4096)
    assert runtime.log == [("hostAlloc", 4096, 1 | 2)] and cuda.is_page_locked(address)
    cuda.free_host(address)
    with pytest.raises(OutOfMemoryError, match="the host could not give"):
        cuda.malloc_mapped(1 << 30)
    runtime.unified = False
    with pytest.raises(RuntimeError, match="no unified addresses"):
        cuda.malloc_mapped(4096)
    assert not runtime.pointers


def test_copies_wait_only_where_they_should(fake):
    cuda, runtime = fake
    array = np.zeros(4, np.float32)
    address = array.__array_interface__["data"][0]
    cuda.copy_host_to_device(0x100, array, 0)
    cuda.stage_host_to_device(0x100, array, 0)
    cuda.copy_device_to_host_async(array, 0x100, 0)
    assert runtime.log == [
        ("memcpyAsync", 0x100, address, 16, 1, 0),
        ("memcpyAsync", 0x100, address, 16, 1, 0),
        ("memcpyAsync", address, 0x100, 16, 2, 0),
    ]
    cuda.copy_device_to_host(array, 0x100, 0)
    assert runtime.log[4:] == [("streamSynchronize", 0)]


def test_a_device_that_reads_pageable_memory_is_given_a_copy_until_it_has(fake):
    cuda, runtime = fake
    runtime.pageable = 1
    array = np.arange(4, dtype=np.float32)
    address = array.__array_interface__["data"][0]
    cuda.stage_host_to_device(0x100, array, 0)
    (_, _, source, nbytes, *_), (what, *_) = runtime.log
    assert source != address and nbytes == 16 and what == "eventRecord"
    [(event, held)] = cuda._held
    assert held.__array_interface__["data"][0] == source and held.tolist() == array.tolist()
    ready = runtime.events[event]
    runtime.events[event] = 0  # the device has not come so far
    cuda.stage_host_to_device(0x200, array, 0)
    assert len(cuda._held) == 2 and cuda._held[0] == (event, held)
    runtime.events[event] = ready
    cuda.stage_host_to_device(0x300, array, 0)
    assert event not in runtime.events and all(kept[0] != event for kept in cuda._held)


def test_peers_and_addresses(fake):
    cuda, runtime = fake
    assert cuda.can_access_peer(0, 1) and not cuda.can_access_peer(1, 1)
    runtime.peers.add((0, 1))
    for _ in range(2):
        cuda.enable_peer_access(0, 1)
        cuda.enable_peer_access(1, 0)
    assert runtime.peers == {(0, 1), (1, 0)} and runtime.device == 0
    with pytest.raises(RuntimeError, match="101"):
        cuda.enable_peer_access(1, 1)
    runtime.pointers[0x500] = (runtime.memoryTypeDevice, 1)
    assert cuda.device_of_address(0x500) == 1
    with pytest.raises(RuntimeError, match="0x600 is no address of device memory"):
        cuda.device_of_address(0x600)


def test_properties(fake):
    cuda, _ = fake
    found = cuda.properties(1)
    assert (found.name, found.total_memory, found.multi_processor_count) == ("Fake", 100, 101)
    assert (found.max_shared_memory, found.shared_memory_per_block, found.L2_cache_size) == (102, 103, 108)
    assert (found.pci_domain_id, found.pci_bus_id, found.pci_device_id) == (109, 110, 111)
    assert found.memory_clock_rate == len("cudaDevAttrMemoryClockRate")
    assert found.uuid == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert cuda.properties(1) is found


def test_library_handles_are_set_to_the_current_stream(fake):
    cuda, runtime = fake
    stream = cuda.create_stream(0)
    cuda.set_stream(0, stream)
    try:
        assert cuda.library_handle("cublas") == 0xB1A5
    finally:
        cuda.set_stream(0, 0)
    assert runtime.log[-1] == ("cublasSetStream", 0xB1A5, stream)
    with pytest.raises(RuntimeError, match="cusolver is not installed"):
        cuda.library_handle("cusolver")
    with pytest.raises(ValueError, match="got 'cudnn'"):
        cuda.library_handle("cudnn")
