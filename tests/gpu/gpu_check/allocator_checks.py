"""The caching allocator on the device's memory: blocks apart from each other, refusals, reuse across streams."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np

import triten as tt

from .device_memory import DeviceMemory, compiled, probes
from .driver_checks import LONG
from .first_checks import agree, check, fresh_numbers, is_rehearsal, require

STEPS = 400 if is_rehearsal() else 3000


def tag_bytes(cuda: Any, data: Any, tag: int) -> None:
    cuda.memset(data.address, tag, data.nbytes, cuda.current_stream(data.device.resolved_index))


@check("allocator: live blocks never overlap, and freeing all returns to zero")
def invariants() -> str:
    rng = fresh_numbers()
    cuda, allocator = tt.library.driver(), tt.library.get_allocator("cuda")
    device = tt.device("cuda", cuda.current_device())
    gc.collect()
    before = tt.cuda.memory_allocated()
    live: list[tuple[Any, int]] = []
    for step in range(STEPS):
        if live and rng.random() < 0.5:
            data, tag = live.pop(int(rng.integers(len(live))))
            ends = np.empty(min(data.nbytes, 256), np.uint8)
            for start in (data.address, data.address + data.nbytes - ends.nbytes):
                cuda.copy_device_to_host(ends, start, 0)
                agree(ends, np.full_like(ends, tag), f"step {step}: a live block of {data.nbytes} bytes")
            del data
        else:
            nbytes = int(2 ** rng.uniform(0, 22))
            data, tag = allocator.allocate(nbytes, device), int(rng.integers(1, 255))
            require(data.address % 512 == 0, f"address {data.address:#x} is not a multiple of 512")
            tag_bytes(cuda, data, tag)
            live.append((data, tag))
    ranges = sorted((data.address, data.address + data.nbytes) for data, _ in live)
    for (_, end), (start, _) in itertools.pairwise(ranges):
        require(end <= start, "two live blocks overlap")
    count = len(live)
    data = None
    live.clear()
    gc.collect()
    after = tt.cuda.memory_allocated()
    require(after == before, f"{after - before} bytes are still counted after everything was freed")
    tt.cuda.empty_cache()
    return f"{STEPS} steps, {count} blocks live at the end"


@check("allocator: out of memory is refused, and everything works on")
def out_of_memory() -> str:
    _, total = tt.cuda.mem_get_info()
    kept = tt.arange(1000.0, device="cuda")
    before = tt.cuda.memory_allocated()
    try:
        tt.empty(2 * total, dtype=tt.uint8, device="cuda")
    except tt.cuda.OutOfMemoryError as error:
        message = str(error)
    else:
        raise AssertionError(f"{2 * total} bytes were given where there are {total}")
    require("out of memory" in message and "allocate" in message, f"the message says {message!r}")
    require(tt.cuda.memory_allocated() == before, "the refused request is counted as allocated")
    agree((kept * 2).cpu().numpy(), np.arange(1000.0) * 2, "a kernel after the refusal")
    return message[:160]


@check("allocator: a full cache is emptied before a request is refused")
def retries() -> str:
    free, _ = tt.cuda.mem_get_info()
    if is_rehearsal():
        free = min(free, 1 << 26)
    chunk = max(free // 8, 1 << 20)
    held = [tt.empty(chunk, dtype=tt.uint8, device="cuda") for _ in range(4)]
    require(len({tensor.data_ptr() for tensor in held}) == 4, "two live tensors share an address")
    held.clear()
    gc.collect()
    big = tt.empty(6 * chunk, dtype=tt.uint8, device="cuda")  # fits only once the cache was given back
    tt.library.driver().memset(big.data_ptr(), 7, 6 * chunk, 0)
    agree(big[-5:].cpu().numpy(), np.full(5, 7), "the end of the large tensor")
    del big
    tt.cuda.empty_cache()
    return f"{6 * chunk / 2**30:.2f} GiB after {4 * chunk / 2**30:.2f} GiB of cached blocks"


@check("allocator: a block that another stream uses is not handed out")
def recorded_stream() -> str:
    n = 1 << 16 if is_rehearsal() else 1 << 22
    cuda, allocator = tt.library.driver(), tt.library.get_allocator("cuda")
    device = tt.device("cuda", cuda.current_device())
    values = fresh_numbers().standard_normal(n).astype(np.float32)
    spin = compiled(probes.spin, {"out": "*fp32", "steps": "i32"}, {})
    copy = compiled(probes.copy, {"source": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 1024})
    steps = 5 if is_rehearsal() else 10 * LONG
    record = getattr(allocator, "record_stream")  # noqa: B009
    with DeviceMemory() as memory:
        side = cuda.create_stream(memory.index)
        source, out, slow = (
            memory.put(values),
            memory.empty(values.nbytes),
            memory.put(np.ones(1, np.float32)),
        )
        data = allocator.allocate(values.nbytes, device)
        cuda.copy_device_to_device(data.address, source, values.nbytes, 0)
        cuda.synchronize()
        spin.launch((1, 1, 1), side, slow, steps)
        copy.launch((-(-n // 1024), 1, 1), side, data.address, out, n)
        record(data, side)
        del data
        taken = [allocator.allocate(values.nbytes, device) for _ in range(3)]
        for other in taken:
            tag_bytes(cuda, other, 0xEE)
        agree(memory.get(out, values), values, "what the other stream read of a freed block")
        del taken, other
    cuda.synchronize()
    return f"{values.nbytes} bytes read by another stream after being freed and asked for again"


@check("allocator: hit rate in a training loop")
def hit_rate() -> str:
    w = tt.randn(64, 64, device="cuda").requires_grad_()
    x = tt.randn(32, 64, device="cuda")

    def step() -> None:
        loss = ((x @ w).relu() ** 2).mean()
        loss.backward()
        with tt.no_grad():
            w.sub_(w.grad, alpha=0.01)
        w.grad = None

    step()
    before = requests_and_segments()
    for _ in range(10):
        step()
    tt.cuda.synchronize()
    requests, segments = (now - then for now, then in zip(requests_and_segments(), before, strict=True))
    require(segments <= requests / 100, f"{segments} segments for {requests} requests")
    return f"{100 * (1 - segments / requests):.1f} % of {requests} requests, {segments} new segments"


def requests_and_segments() -> tuple[int, int]:
    """Return the number of allocation requests and the number of segments allocated from the device."""
    memory_stats = getattr(tt.cuda, "memory_stats", None)
    if memory_stats is not None:
        stats = memory_stats()
        return stats["allocation.all.allocated"], stats["segment.all.allocated"]
    counters = tt.library.get_allocator("cuda").stats(tt.cuda.current_device())
    return counters.allocations, counters.segments
