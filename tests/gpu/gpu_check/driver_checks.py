"""The driver's functions, one by one, against what CUDA's runtime API documents."""

from __future__ import annotations

from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.driver import is_simulated

from .device_memory import DeviceMemory, compiled, probes
from .first_checks import (
    NeedsACard,
    NotBuilt,
    agree,
    check,
    driver_function,
    fresh_numbers,
    is_rehearsal,
    require,
)

COUNT = 100_000
LONG = 3_000_000
"""Steps of `spin` that take some milliseconds: dependent multiplications and additions, four cycles each."""


def numbers(count: int = COUNT) -> np.ndarray[Any, Any]:
    return fresh_numbers().standard_normal(count).astype(np.float32)


def keep_busy(memory: DeviceMemory, stream: int) -> None:
    """Give a stream work that takes some milliseconds on a card."""
    kernel = compiled(probes.spin, {"out": "*fp32", "steps": "i32"}, {})
    kernel.launch((1, 1, 1), stream, memory.put(np.ones(1, np.float32)), 5 if is_rehearsal() else LONG)


@check("driver: copies between host and device, and on it")
def copies() -> None:
    values = numbers()
    with DeviceMemory() as memory:
        first = memory.put(values)
        agree(memory.get(first, values), values, "there and back")
        second = memory.empty(values.nbytes)
        memory.cuda.copy_device_to_device(second, first, values.nbytes, 0)
        agree(memory.get(second, values), values, "on the device")
        memory.cuda.copy_device_to_device(second, first + 400, 400, 0)
        expected = values.copy()
        expected[:100] = values[100:200]
        agree(memory.get(second, values), expected, "a part of a block")


@check("driver: memset")
def memset() -> None:
    values = np.zeros(1003, np.uint8)
    with DeviceMemory() as memory:
        address = memory.put(values)
        memory.cuda.memset(address + 3, 0xA5, 900, 0)
        values[3:903] = 0xA5
        agree(memory.get(address, values), values, "900 of 1003 bytes")


@check("driver: streams, and their priorities")
def streams() -> str:
    values = numbers()
    with DeviceMemory() as memory:
        made = [memory.cuda.create_stream(memory.index, priority) for priority in (0, -1)]
        require(len({0, *made}) == 3, f"streams are not distinct: {made}")
        source = memory.put(values)
        out = [memory.empty(values.nbytes) for _ in made]
        for stream, place in zip(made, out, strict=True):
            memory.cuda.copy_device_to_device(place, source, values.nbytes, stream)
        for stream, place in zip(made, out, strict=True):
            memory.cuda.synchronize_stream(stream)
            require(memory.cuda.query_stream(stream), "a synchronised stream says that it has work")
            agree(memory.get(place, values), values, "a copy on a stream")
    return "2 streams"


@check("driver: a stream has work until it has none")
def query() -> None:
    with DeviceMemory() as memory:
        stream = memory.cuda.create_stream(memory.index)
        event = memory.cuda.create_event()
        require(memory.cuda.query_event(event), "an event that was never recorded is not done")
        keep_busy(memory, stream)
        memory.cuda.record_event(event, stream)
        busy = not memory.cuda.query_stream(stream), not memory.cuda.query_event(event)
        memory.cuda.synchronize_event(event)
        require(memory.cuda.query_event(event), "an event is not done after waiting for it")
        memory.cuda.synchronize_stream(stream)
        require(memory.cuda.query_stream(stream), "a stream is not done after waiting for it")
        memory.cuda.destroy_event(event)
        if not is_simulated():
            require(all(busy), f"long work on a stream was not seen: stream and event busy: {busy}")


@check("driver: events order streams")
def events_order() -> None:
    values = numbers()
    with DeviceMemory() as memory:
        first, second = (memory.cuda.create_stream(memory.index) for _ in range(2))
        source, middle, last = memory.put(values), memory.put(values * 0), memory.put(values * 0)
        event = memory.cuda.create_event()
        keep_busy(memory, first)
        memory.cuda.copy_device_to_device(middle, source, values.nbytes, first)
        memory.cuda.record_event(event, first)
        memory.cuda.wait_event(second, event)
        memory.cuda.copy_device_to_device(last, middle, values.nbytes, second)
        memory.cuda.synchronize_stream(second)
        agree(memory.get(last, values), values, "a copy that waited for another stream")
        memory.cuda.destroy_event(event)


@check("driver: elapsed time of long work")
def elapsed() -> str:
    with DeviceMemory() as memory:
        start, end = (memory.cuda.create_event(timing=True) for _ in range(2))
        keep_busy(memory, 0)
        memory.cuda.record_event(start, 0)
        keep_busy(memory, 0)
        memory.cuda.record_event(end, 0)
        memory.cuda.synchronize_event(end)
        milliseconds = memory.cuda.elapsed(start, end)
        require(milliseconds >= 0, f"{milliseconds} ms")
        require(is_rehearsal() or milliseconds > 0.5, f"{LONG} dependent steps took {milliseconds} ms")
        return f"{milliseconds:.3f} ms for {LONG} dependent steps"


@check("driver: memory info")
def memory_info() -> str:
    with DeviceMemory() as memory:
        free, total = memory.cuda.memory_info(memory.index)
        require(0 < free <= total, f"free {free}, total {total}")
        memory.empty(256 << 20)
        after, _ = memory.cuda.memory_info(memory.index)
        require(free - after >= 256 << 20, f"256 MiB taken, but free went from {free} to {after}")
    return f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"


@check("driver: properties")
def properties() -> str:
    told = tt.cuda.get_device_properties()
    require(told.multi_processor_count > 0 and told.warp_size == 32, f"{told}")
    require(told.max_shared_memory >= 48 * 1024, f"{told}")
    return (
        f"{told.name}, capability {told.major}.{told.minor}, {told.multi_processor_count} multiprocessors, "
        f"{told.max_shared_memory} bytes of shared memory"
    )


@check("driver: a device that does not exist is refused")
def wrong_device() -> None:
    count = tt.cuda.device_count()
    for wrong in (count, -2):
        try:
            tt.library.driver().set_device(wrong)
        except RuntimeError as error:
            require("invalid device ordinal" in str(error), f"{error}")
        else:
            raise AssertionError(f"device {wrong} of {count} was accepted")
    agree(tt.ones(3, device="cuda").cpu().numpy(), np.ones(3), "after the refusal")


@check("driver: two devices")
def two_devices() -> str:
    if tt.cuda.device_count() < 2:
        raise NeedsACard("a second one")
    x = tt.arange(1000.0, device="cuda:0")
    agree(x.to("cuda:1").cpu().numpy(), np.arange(1000.0), "from one device to another")
    with tt.cuda.device(1):
        agree((tt.ones(10, device="cuda") + 1).cpu().numpy(), np.full(10, 2.0), "on the second device")
    return "copies and a kernel on the second device"


@check("driver: peer access")
def peer_access() -> str:
    reachable = driver_function("can_access_peer")
    enable = driver_function("enable_peer_access")
    if tt.cuda.device_count() < 2:
        raise NeedsACard("a second one")
    if not reachable(0, 1):
        return "the devices cannot reach each other"
    enable(0, 1)
    agree(tt.ones(10, device="cuda:0").to("cuda:1").cpu().numpy(), np.ones(10), "a peer copy")
    return "enabled"


@check("driver: pinned memory, and a copy that does not wait")
def pinned() -> str:
    malloc, free = driver_function("malloc_host"), driver_function("free_host")
    copy = driver_function("copy_device_to_host_async")
    values = numbers()
    address = malloc(values.nbytes)
    try:
        import ctypes

        raw = (ctypes.c_char * values.nbytes).from_address(address)
        host = np.frombuffer(raw, np.float32)
        host[:] = values
        with DeviceMemory() as memory:
            stream = memory.cuda.create_stream(memory.index)
            there = memory.empty(values.nbytes)
            memory.cuda.copy_host_to_device(there, host, stream)
            memory.cuda.synchronize_stream(stream)
            host[:] = 0
            copy(host, there, stream)
            memory.cuda.synchronize_stream(stream)
            agree(host, values, "back into pinned memory")
    finally:
        free(address)
    return f"{values.nbytes} bytes"


@check("driver: mapped memory, which a kernel writes and the host reads")
def mapped() -> str:
    malloc, free = driver_function("malloc_mapped"), driver_function("free_host")
    values = numbers(1000)
    address = malloc(values.nbytes)
    try:
        import ctypes

        host = np.frombuffer((ctypes.c_char * values.nbytes).from_address(address), np.float32)
        host[:] = 0
        with DeviceMemory() as memory:
            kernel = compiled(probes.copy, {"source": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 1024})
            stream = memory.cuda.create_stream(memory.index)
            source = memory.put(values)
            memory.cuda.synchronize()
            kernel.launch((1, 1, 1), stream, source, address, values.size)
            memory.cuda.synchronize_stream(stream)
            agree(host, values, "what the kernel wrote")
    finally:
        free(address)
    return f"{values.nbytes} bytes, without a copy"


@check("driver: the range of priorities")
def priorities() -> str:
    least, greatest = driver_function("stream_priority_range")()
    require(greatest <= least, f"least {least}, greatest {greatest}")
    return f"{least} to {greatest}"


@check("driver: library handles")
def library_handles() -> str:
    handle = driver_function("library_handle")
    if is_simulated():
        raise NeedsACard("library calls go to the host on simulated devices")
    try:
        return f"cuBLAS {handle('cublas')}"
    except (ImportError, RuntimeError) as error:
        raise NotBuilt(f"cuBLAS: {error}") from error
