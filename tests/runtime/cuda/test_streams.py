"""Streams and events: order, waits, and deferred execution until a wait."""

import threading

import numpy as np
import pytest
import triton
import triton.language as tl


@triton.jit
def increment_kernel(x, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index) + 1)


def increment(cuda, address, stream):
    cuda.driver.compile(increment_kernel, {"x": "*i32"}, {"BLOCK": 4}).launch((1, 1, 1), stream, address)


@pytest.mark.interpreter
def test_a_copy_from_the_host_reads_when_it_runs(cuda):
    address, host = cuda.empty(16), np.zeros(4, np.int32)
    cuda.driver.copy_host_to_device(address, host, 0)
    host[:] = 5
    assert cuda.get(address, 4, np.int32).tolist() == [5] * 4


@pytest.mark.interpreter
def test_a_launch_reads_memory_when_it_runs(cuda):
    address, stream = cuda.put(np.zeros(4, np.int32)), cuda.driver.create_stream(0)
    increment(cuda, address, stream)
    cuda.driver.memset(address, 0, 16, stream)
    increment(cuda, address, stream)
    cuda.driver.synchronize_stream(stream)
    assert cuda.get(address, 4, np.int32).tolist() == [1] * 4


@pytest.mark.interpreter
def test_a_stream_does_not_wait_by_itself(cuda):
    address, stream = cuda.put(np.zeros(4, np.int32)), cuda.driver.create_stream(0)
    increment(cuda, address, stream)
    assert cuda.get(address, 4, np.int32).tolist() == [0] * 4, "the default stream must not run the other one"
    cuda.driver.synchronize()
    assert cuda.get(address, 4, np.int32).tolist() == [1] * 4


def test_an_event_orders_two_streams(cuda):
    address, stream = cuda.put(np.zeros(4, np.int32)), cuda.driver.create_stream(0)
    event = cuda.driver.create_event()
    increment(cuda, address, stream)
    cuda.driver.record_event(event, stream)
    increment(cuda, address, stream)
    cuda.driver.wait_event(0, event)
    assert cuda.get(address, 4, np.int32)[0] >= 1
    cuda.driver.synchronize_stream(stream)
    assert cuda.get(address, 4, np.int32).tolist() == [2] * 4
    cuda.driver.destroy_event(event)


def test_waiting_goes_through_chains_of_streams(cuda):
    address = cuda.put(np.zeros(4, np.int32))
    streams = [cuda.driver.create_stream(0) for _ in range(3)]
    previous = None
    for step in range(9):
        stream = streams[step % 3]
        if previous is not None:
            cuda.driver.wait_event(stream, previous)
        increment(cuda, address, stream)
        previous = cuda.driver.create_event()
        cuda.driver.record_event(previous, stream)
    cuda.driver.synchronize_event(previous)
    assert cuda.get(address, 4, np.int32).tolist() == [9] * 4


def test_polling_comes_to_an_end(cuda):
    address, stream = cuda.put(np.zeros(4, np.int32)), cuda.driver.create_stream(0)
    event = cuda.driver.create_event()
    assert cuda.driver.query_event(event), "an event that was never recorded is done"
    increment(cuda, address, stream)
    cuda.driver.record_event(event, stream)
    while not cuda.driver.query_event(event):
        pass
    assert cuda.get(address, 4, np.int32).tolist() == [1] * 4
    while not cuda.driver.query_stream(stream):
        pass


def test_elapsed_wants_two_timed_events_that_have_happened(cuda):
    start, end = (cuda.driver.create_event(timing=True) for _ in range(2))
    cuda.driver.record_event(start, 0)
    increment(cuda, cuda.put(np.zeros(4, np.int32)), 0)
    cuda.driver.record_event(end, 0)
    cuda.driver.synchronize()
    assert cuda.driver.elapsed(start, end) > 0.0
    assert cuda.driver.elapsed(end, start) < 0.0
    with pytest.raises(RuntimeError):
        cuda.driver.elapsed(start, cuda.driver.create_event(timing=True))
    with pytest.raises(RuntimeError):
        cuda.driver.elapsed(cuda.driver.create_event(), end)


def test_the_current_device_and_stream_belong_to_a_thread(cuda):
    stream = cuda.driver.create_stream(0)
    cuda.driver.set_stream(0, stream)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cuda.driver.current_stream(0)))
    thread.start()
    thread.join()
    assert seen == [0]
    assert cuda.driver.current_stream(0) == stream
    cuda.driver.set_stream(0, 0)


def test_launches_from_another_thread(cuda):
    address = cuda.put(np.zeros(4, np.int32))
    thread = threading.Thread(target=lambda: increment(cuda, address, 0))
    thread.start()
    thread.join()
    assert cuda.get(address, 4, np.int32).tolist() == [1] * 4


@pytest.mark.interpreter
def test_an_unknown_stream_is_refused(cuda):
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        cuda.driver.synchronize_stream(12345)


@pytest.mark.interpreter
def test_launch_blocking_raises_at_the_launch(cuda, monkeypatch):
    monkeypatch.setattr(cuda.driver, "launch_blocking", True)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        increment(cuda, 0x1000, 0)


@pytest.mark.interpreter
def test_work_after_a_failure_still_runs(cuda):
    address = cuda.put(np.zeros(4, np.int32))
    increment(cuda, 0x1000, 0)
    increment(cuda, address, 0)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.driver.synchronize()
    assert cuda.get(address, 4, np.int32).tolist() == [1] * 4


@pytest.mark.interpreter
def test_a_full_queue_runs(cuda):
    address = cuda.put(np.zeros(4, np.int32))
    for _ in range(1100):
        increment(cuda, address, 0)
    assert cuda.get(address, 4, np.int32).tolist() == [1100] * 4
