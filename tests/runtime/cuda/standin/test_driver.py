"""CuPyDriver over the stand-in: each of its functions makes the matching driver call."""

import threading

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver

MIB = 2**20


def only(calls, name):
    """Return the only call of this name; the other calls must be bookkeeping."""
    found = [call for call in calls if call.name == name]
    assert len(found) == 1, [call.name for call in calls]
    return found[0]


def test_the_devices_are_those_of_the_driver(standin):
    assert tt.cuda.is_available()
    assert tt.cuda.device_count() == 2
    assert type(driver()).__name__ == "CuPyDriver"
    assert tt.cuda.get_device_name() == "NVIDIA H200"
    assert tt.cuda.get_device_capability() == (9, 0)
    properties = driver().properties(0)
    assert properties.multi_processor_count == 132
    assert properties.warp_size == 32
    assert properties.max_shared_memory == 232448
    assert properties.total_memory == 150754820096
    assert tt.cuda.mem_get_info()[1] == 150754820096


@pytest.mark.parametrize("device", [-1, 2, 1000])
def test_a_device_that_does_not_exist_is_refused(standin, device):
    with pytest.raises(RuntimeError, match=r"CUDA error: invalid device ordinal"):
        driver().set_device(device)
    assert driver().current_device() == 0
    with pytest.raises(RuntimeError, match=r"CUDA error: invalid device ordinal"):
        driver().properties(device)


def test_segments_come_from_the_device_and_go_back_to_it(standin):
    before = driver().memory_info(0)[0]
    standin.clear()
    address = driver().malloc(0, 32 * MIB)
    assert only(standin.calls, "cuMemAlloc").integer("bytes") == 32 * MIB
    assert address % 512 == 0
    assert driver().memory_info(0)[0] == before - 32 * MIB
    standin.clear()
    driver().free(0, address)
    assert standin.sequence == ["cuCtxSynchronize", "cuMemFree"]
    assert standin.named("cuMemFree")[0].integer("address") == address
    assert driver().memory_info(0)[0] == before


def test_a_segment_stays_while_another_one_goes(standin):
    first, second = driver().malloc(0, 4 * MIB), driver().malloc(0, 4 * MIB)
    standin.clear()
    driver().free(0, first)
    assert [call.integer("address") for call in standin.named("cuMemFree")] == [first]
    driver().free(0, second)


def test_copies_name_their_direction_and_stream(standin):
    address = driver().malloc(0, 4096)
    stream = driver().create_stream(0)
    source = np.arange(16, dtype=np.float32)
    target = np.zeros_like(source)
    calls = standin.during(lambda: driver().copy_host_to_device(address, source, stream))
    call = only(calls, "cuMemcpyHtoDAsync")
    assert (call.integer("dst"), call.integer("src")) == (address, source.ctypes.data)
    assert (call.integer("bytes"), call.integer("stream")) == (64, stream)
    assert len(calls) == 1, "enqueueing a copy waits for nothing"
    calls = standin.during(lambda: driver().copy_device_to_device(address + 512, address, 64, stream))
    call = only(calls, "cuMemcpyAsync")
    assert (call.integer("dst"), call.integer("src"), call.integer("bytes")) == (address + 512, address, 64)
    assert len(calls) == 1
    calls = standin.during(lambda: driver().copy_device_to_host(target, address + 512, stream))
    assert [call.name for call in calls] == ["cuMemcpyDtoHAsync", "cuStreamSynchronize"]
    assert {call.integer("stream") for call in calls} == {stream}
    assert target.tolist() == source.tolist()
    driver().memset(address, 0x3F, 64, stream)
    call = only(standin.calls, "cuMemsetD8Async")
    assert (call["value"], call.integer("bytes"), call.integer("stream")) == ("63", 64, stream)
    driver().copy_device_to_host(target, address, stream)
    assert target.view(np.uint8).tolist() == [0x3F] * 64
    driver().free(0, address)


def test_streams_do_not_wait_for_the_default_one(standin):
    driver().create_stream(0, -1)
    call = only(standin.calls, "cuStreamCreateWithPriority")
    assert (call["flags"], call["priority"]) == ("1", "-1")


def test_a_stream_is_asked_and_waited_for(standin):
    stream = driver().create_stream(0)
    assert driver().query_stream(stream) is True
    standin.hold(stream)
    assert driver().query_stream(stream) is False
    driver().synchronize_stream(stream)
    assert only(standin.calls, "cuStreamSynchronize").integer("stream") == stream
    assert driver().query_stream(stream) is True
    standin.clear()
    driver().synchronize()
    assert standin.sequence == ["cuCtxSynchronize"]


def test_events_order_two_streams(standin):
    first, second = driver().create_stream(0), driver().create_stream(0)
    event = driver().create_event()
    assert only(standin.calls, "cuEventCreate")["flags"] == "2", "without timing, which would make it dearer"
    assert driver().query_event(event) is True, "one that was never recorded"
    standin.hold(first)
    standin.clear()
    driver().record_event(event, first)
    driver().wait_event(second, event)
    record, wait = standin.calls
    assert (record.name, record.integer("event"), record.integer("stream")) == ("cuEventRecord", event, first)
    assert (wait.name, wait.integer("event"), wait.integer("stream")) == ("cuStreamWaitEvent", event, second)
    assert driver().query_event(event) is False
    driver().synchronize_event(event)
    assert driver().query_event(event) is True
    driver().destroy_event(event)
    assert only(standin.calls, "cuEventDestroy").integer("event") == event


def test_two_events_with_timing_give_a_duration(standin):
    stream = driver().create_stream(0)
    start, end = driver().create_event(timing=True), driver().create_event(timing=True)
    assert {call["flags"] for call in standin.named("cuEventCreate")} == {"0"}
    driver().record_event(start, stream)
    driver().record_event(end, stream)
    assert driver().elapsed(start, end) >= 0


def test_a_device_that_is_named_is_current_only_for_that_call(standin):
    driver().set_device(0)
    address = driver().malloc(1, 4 * MIB)
    stream = driver().create_stream(1)
    assert standin.named("cuMemAlloc")[0].device == 1
    assert standin.named("cuStreamCreateWithPriority")[0].device == 1
    assert driver().current_device() == 0
    standin.clear()
    driver().memory_info(0)
    assert standin.named("cuMemGetInfo")[0].device == 0
    with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
        driver().query_stream(stream)  # of device 1, and 0 is current
    driver().set_device(1)
    assert driver().query_stream(stream)
    driver().free(1, address)
    driver().set_device(0)


def test_memory_is_taken_from_the_device_that_was_named_though_cupy_chose_another(standin):
    import cupy

    driver().set_device(0)
    with cupy.cuda.Device(1):
        address = driver().malloc(0, 4 * MIB)
        assert cupy.cuda.runtime.getDevice() == 1
        driver().free(0, address)
    assert {call.device for call in standin.named("cuMemAlloc", "cuMemFree")} == {0}


def test_every_thread_has_a_current_device_and_its_context(standin):
    driver().set_device(1)
    seen = {}

    def look():
        seen["first"] = driver().current_device()
        driver().synchronize()
        driver().set_device(1)
        driver().synchronize()
        seen["then"] = driver().current_device()

    thread = threading.Thread(target=look)
    standin.clear()
    thread.start()
    thread.join()
    assert seen == {"first": 0, "then": 1}
    assert [call.device for call in standin.named("cuCtxSynchronize")] == [0, 1]
    assert driver().current_device() == 1
    driver().set_device(0)


def test_a_full_device_says_so_and_goes_on(standin):
    unused, total = driver().memory_info(0)
    standin.set("MEMORY", total - unused + 64 * MIB)
    held = driver().malloc(0, 40 * MIB)
    with pytest.raises(tt.cuda.OutOfMemoryError, match=r"CUDA out of memory.*41943040 bytes"):
        driver().malloc(0, 40 * MIB)
    driver().free(0, held)
    driver().free(0, driver().malloc(0, 40 * MIB))


def test_a_capture_of_cupys_streams_holds_launches(standin):
    """Pass a graph's begin, end, instantiate and launch to the driver with the stream."""
    from cupy.cuda import runtime

    stream = driver().create_stream(0)
    address = driver().malloc(0, 4096)
    runtime.streamBeginCapture(stream, runtime.streamCaptureModeThreadLocal)
    assert runtime.streamIsCapturing(stream)
    driver().memset(address, 1, 16, stream)
    graph = runtime.streamEndCapture(stream)
    executable = runtime.graphInstantiate(graph)
    target = np.zeros(16, np.uint8)
    driver().copy_device_to_host(target, address, stream)
    assert target.tolist() == [0] * 16, "captured, not done"
    runtime.graphLaunch(executable, stream)
    driver().copy_device_to_host(target, address, stream)
    assert target.tolist() == [1] * 16
    (launch,) = standin.named("cuGraphLaunch")
    assert (launch["nodes"], launch.integer("stream")) == ("1", stream)
    driver().free(0, address)
