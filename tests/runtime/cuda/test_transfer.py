"""Copies between host and device and between devices: which wait, which do not, and the memory they keep
alive.
"""

import gc

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda import transfer
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.memory.pinned import PINNED_ALLOCATOR

HELD = pytest.mark.interpreter


@pytest.fixture
def held():
    """Hold back the default stream of the first device until the test releases it."""
    cuda = driver()
    tt.cuda.synchronize()
    cuda.hold(0)
    yield cuda
    if cuda.stream(0).releaser is not None:
        cuda.release(0)
    tt.cuda.synchronize()


def let_go(cuda):
    cuda.release(0)
    tt.cuda.synchronize()


@HELD
def test_a_copy_from_pinned_memory_is_only_enqueued(held):
    x = tt.arange(6.0, pin_memory=True)
    y = x.to("cuda", non_blocking=True)
    x.fill_(9.0)
    let_go(held)
    assert y.tolist() == [9.0] * 6, "it reads when it runs"


@HELD
def test_a_copy_from_pageable_memory_has_read_all_when_it_returns(held):
    x = tt.arange(6.0)
    y = x.to("cuda", non_blocking=True)
    x.fill_(9.0)
    let_go(held)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@HELD
def test_a_copy_to_pinned_memory_is_only_enqueued(held):
    x = tt.arange(6.0, device="cuda:0")
    y = tt.full((6,), -1.0, pin_memory=True)
    assert y.copy_(x, non_blocking=True) is y
    assert y.tolist() == [-1.0] * 6
    let_go(held)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@HELD
def test_to_the_host_without_waiting_goes_to_pinned_memory(held):
    x = tt.full((6,), 83.0, device="cuda")
    y = x.to("cpu", non_blocking=True)
    assert y.is_pinned() and y.tolist() != [83.0] * 6
    let_go(held)
    assert y.tolist() == [83.0] * 6
    assert not x.to("cpu").is_pinned() and not x.cpu().is_pinned()


@HELD
@pytest.mark.parametrize("dtype", [tt.float64, tt.int32, tt.bfloat16])
def test_conversions_to_the_host_without_waiting_are_the_devices_work(held, dtype):
    x = tt.arange(6.0, device="cuda").view(2, 3).t()
    y = x.to("cpu", dtype, non_blocking=True)
    let_go(held)
    assert y.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] and y.dtype is dtype


@HELD
def test_conversions_from_pinned_memory_are_the_devices_work(held):
    x = tt.arange(6, pin_memory=True)
    y = x.to("cuda", tt.float32, non_blocking=True)
    let_go(held)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@HELD
@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.to("cpu"),
        lambda x: tt.zeros(4).copy_(x, non_blocking=True),
        lambda x: tt.zeros(8, pin_memory=True)[::2].copy_(x, non_blocking=True),
        lambda x: tt.zeros(4, pin_memory=True).copy_(x),
        lambda x: x.copy_(tt.zeros(4)),
        lambda x: x.copy_(tt.zeros(4, pin_memory=True)),
        lambda x: tt.zeros(4).cuda(),
        lambda x: x.item() if x.numel() == 1 else x.tolist(),
    ],
)
def test_these_copies_wait(held, copy):
    x = tt.arange(4.0, device="cuda")
    with pytest.raises(RuntimeError, match="deadlock"):
        copy(x)


@HELD
def test_what_the_host_has_to_scatter_is_waited_for_even_in_pinned_memory(held):
    x = tt.arange(4.0, device="cuda")
    tt.library.set_allocator("cpu", PINNED_ALLOCATOR)
    try:
        y = tt.full((8,), -1.0)
        assert y.is_pinned()
        with pytest.raises(RuntimeError, match="deadlock"):
            y[::2].copy_(x, non_blocking=True)
        let_go(held)
        assert y[::2].copy_(x, non_blocking=True).tolist() == [0.0, 1.0, 2.0, 3.0]
    finally:
        tt.library.set_allocator("cpu", None)


def test_every_way_gives_the_same_numbers():
    host = tt.arange(24.0).view(2, 3, 4)
    for blocking in (True, False):
        for pinned in (True, False):
            source = host.pin_memory() if pinned else host
            for view in (source, source.transpose(0, 2), source[:, 1:, ::2], source[:1].expand(2, 3, 4)):
                there = view.to("cuda", non_blocking=not blocking)
                back = there.to("cpu", non_blocking=not blocking)
                other = tt.zeros(view.shape[::-1]).permute(2, 1, 0)
                other.copy_(there, non_blocking=not blocking)
                tt.cuda.synchronize()
                assert back.tolist() == view.tolist() == other.tolist()


@HELD
def test_a_pinned_block_is_not_reused_while_a_copy_reads_it(held):
    x = tt.full((1000,), 1.0, pin_memory=True)
    address = x.data_ptr()
    y = x.to("cuda", non_blocking=True)
    del x
    gc.collect()
    others = [tt.full((1000,), -1.0, pin_memory=True) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    let_go(held)
    assert y.tolist() == [1.0] * 1000
    del others
    gc.collect()
    assert PINNED_ALLOCATOR.find(address) is not None
    again = [tt.empty(1000, pin_memory=True) for _ in range(6)]
    assert address in [other.data_ptr() for other in again]


@HELD
def test_a_pinned_block_is_not_reused_while_a_copy_writes_it(held):
    x = tt.full((1000,), 1.0, device="cuda")
    address = x.to("cpu", non_blocking=True).data_ptr()
    gc.collect()
    others = [tt.full((1000,), -1.0, pin_memory=True) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    let_go(held)
    assert all(other.tolist() == [-1.0] * 1000 for other in others)


@HELD
def test_page_locked_memory_that_is_freed_too_early_is_found_out(held):
    there, address = tt.empty(4, device="cuda"), driver().malloc_host(64)
    array = np.frombuffer((np.ctypeslib.ctypes.c_ubyte * 16).from_address(address), np.float32)
    held.copy_host_to_device(there.data_ptr(), array, 0)
    held.copy_device_to_host_async(array, there.data_ptr(), 0)
    held.free_host(address)
    held.release(0)
    for what in ("host to device", "device to host"):
        with pytest.raises(
            RuntimeError, match=f"copy from {what} of 16 bytes: page-locked memory at .* given back"
        ):
            tt.cuda.synchronize()
    assert there.fill_(2.0).tolist() == [2.0] * 4


@HELD
def test_an_asynchronous_copy_wants_page_locked_memory():
    x = tt.ones(4, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"copy_device_to_host_async\(\): expected page-locked host memory"
    ):
        driver().copy_device_to_host_async(np.zeros(4, np.float32), x.data_ptr(), 0)


def test_cuda_and_cpu_take_pytorchs_arguments():
    x = tt.zeros(1, 2, 3, 4)
    there = x.cuda(1, non_blocking=True, memory_format=tt.channels_last)
    assert there.device == tt.device("cuda:1") and there.is_contiguous(memory_format=tt.channels_last)
    assert there.cuda("cuda:1") is there and there.cuda().device == tt.device("cuda:0")
    assert there.cpu(memory_format=tt.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        x.cuda("cpu")


@HELD
def test_between_devices_the_host_waits_for_nothing(held):
    x = tt.arange(4.0, device="cuda:0")
    y = tt.zeros(4, device="cuda:1")
    y.copy_(x)
    z = y + 1
    assert not tt.cuda.current_stream(1).query()
    x.fill_(7.0)
    let_go(held)
    assert z.tolist() == [1.0, 2.0, 3.0, 4.0], "in stream order: before the fill, after the sum's input"


@HELD
def test_between_devices_the_target_is_written_after_it_was_read():
    tt.cuda.synchronize(0)
    tt.cuda.synchronize(1)
    y = tt.zeros(4, device="cuda:1")
    driver().hold(0, 1)
    before = y + 1
    y.copy_(tt.full((4,), 5.0, device="cuda:0"))
    assert not driver().query_event(tt.cuda.default_stream(0).record_event().cuda_event)
    driver().release(0, 1)
    assert before.tolist() == [1.0] * 4 and y.tolist() == [5.0] * 4


@HELD
def test_between_devices_on_side_streams():
    source, target = tt.cuda.Stream(0), tt.cuda.Stream(1)
    with tt.cuda.stream(source), tt.cuda.stream(target):
        assert tt.cuda.current_stream(0) == source
        gc.collect()
        for device in range(2):
            tt.cuda.default_stream(device).synchronize()
        x = tt.arange(6.0, device="cuda:0").view(2, 3)
        y = x.t().to("cuda:1", tt.float64)
        z = y * 2
        assert tt.cuda.default_stream(0).query() and tt.cuda.default_stream(1).query()
        assert z.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert tt.cuda.current_device() == 0 and not driver()._thread.streams.get(0)


@HELD
def test_peer_access_is_enabled_at_the_first_copy_where_possible(monkeypatch):
    cuda = driver()
    monkeypatch.setattr(transfer, "_connected", set())
    monkeypatch.setattr(cuda, "_peer_access", set())
    tt.ones(2, device="cuda:0").to("cuda:1")
    assert cuda._peer_access == {(0, 1), (1, 0)}
    monkeypatch.setattr(transfer, "_connected", set())
    monkeypatch.setattr(cuda, "_peer_access", set())
    monkeypatch.setattr(cuda, "peers", set())
    assert not tt.cuda.can_device_access_peer(0, 1)
    assert tt.ones(2, device="cuda:0").to("cuda:1").tolist() == [1.0, 1.0], "elsewhere through the host"
    assert cuda._peer_access == set()
    with pytest.raises(RuntimeError, match="peer access is not supported between these two devices: 0 and 1"):
        cuda.enable_peer_access(0, 1)


@HELD
def test_a_failed_copy_leaves_device_and_events_as_they_were(monkeypatch):
    x, y = tt.ones(4, device="cuda:0"), tt.zeros(4, device="cuda:1")
    gc.collect()
    before = len(driver()._events)

    def fail(*args):
        raise MemoryError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(driver(), "copy_device_to_device", fail)
        with pytest.raises(MemoryError), tt.cuda.device(1):
            y.copy_(x)
    assert tt.cuda.current_device() == 0 and len(driver()._events) == before
    assert y.copy_(x).tolist() == [1.0] * 4
