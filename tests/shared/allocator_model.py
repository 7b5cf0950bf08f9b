"""The caching allocator checked against a model of a correct one, over two drivers that a test controls.

`Model` makes the same calls on the allocator and on itself, and `check` compares the two:

- blocks tile their segments, and live blocks do not overlap;
- the allocator reuses no memory before all work on it, on all streams, is done;
- memory of different streams or pools does not mix;
- statistics equal a recount.

At the end, `finish` frees everything and checks that nothing is left.
"""

import gc
import itertools
import random
import threading

import pytest

from triten.runtime.cuda.driver import DeviceProperties, Driver
from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.runtime.cuda.memory.block import GRANULARITY
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.inspection import (
    nested_stats,
    record_history,
    reset_peaks,
    set_fraction,
    snapshot_segments,
)
from triten.runtime.cuda.memory.options import AllocatorOptions
from triten.runtime.cuda.simulated.memory import DeviceMemory
from triten.runtime.device import device as Device
from triten.runtime.errors import OutOfMemoryError

DEVICES = (Device("cuda", 0), Device("cuda", 1))
STREAMS = (0, 1, 2)
TOTAL = 256 * 2**20
SMALL = 8
SIZES = [1, GRANULARITY - 1, GRANULARITY, GRANULARITY + 1, 2000, 4096, 70_000, 2**20 - 1, 2**20, 2**20 + 1]
SIZES += [mib * 2**20 for mib in (3, 9, 10, 30)]
METRICS = ("allocation", "allocated_bytes", "requested_bytes", "active", "active_bytes")
METRICS += ("inactive_split", "inactive_split_bytes", "segment", "reserved_bytes")


class HeldDriver(Driver):
    """Addresses without memory, and streams that get on only when `complete` says so."""

    def __init__(self):
        super().__init__()
        self.segments = [{} for _ in DEVICES]
        self.refuse = 0
        self.work = {(d, s): 0 for d in range(len(DEVICES)) for s in STREAMS}
        self.completed = dict(self.work)
        self.may_use_events = True
        self.events = {}
        self._numbers = itertools.count(1)
        self._freed = []
        self._next = 2**40
        self._malloc_lock = threading.Lock()

    def device_count(self):
        return len(DEVICES)

    def properties(self, device):
        return DeviceProperties("held", 9, 0, TOTAL, 4, 32, 0)

    def malloc(self, device, nbytes):
        with self._malloc_lock:
            if self.refuse or sum(self.segments[device].values()) + nbytes > TOTAL:
                self.refuse = max(self.refuse - 1, 0)
                raise OutOfMemoryError("none left")
            # An address of before comes back, as it would from a driver.
            for size, address in self._freed:
                if size == nbytes:
                    self._freed.remove((size, address))
                    break
            else:
                address, self._next = self._next, self._next + nbytes
            self.segments[device][address] = nbytes
            return address

    def free(self, device, address):
        assert self.may_use_events, "the driver takes memory back while work is captured"
        self._freed.append((self.segments[device].pop(address), address))
        for d, s in self.work:
            if d == device:
                self.completed[d, s] = self.work[d, s]

    def memory_info(self, device):
        return TOTAL - sum(self.segments[device].values()), TOTAL

    def create_event(self, timing=False, blocking=False):
        event = next(self._numbers)
        self.events[event] = None
        return event

    def record_event(self, event, stream):
        assert self.may_use_events
        place = self.current_device(), stream
        self.events[event] = *place, self.work[place]

    def query_event(self, event):
        assert self.may_use_events
        device, stream, position = self.events[event]
        return self.completed[device, stream] >= position

    def synchronize_event(self, event):
        assert self.may_use_events
        device, stream, position = self.events[event]
        self.completed[device, stream] = max(self.completed[device, stream], position)

    def handle(self, device, stream):
        return stream

    def launch(self, device, stream, pointer):
        self.work[device, stream] += 1

    def complete(self, device, stream):
        self.completed[device, stream] = self.work[device, stream]


HeldDriver.__abstractmethods__ = frozenset()  # what an allocator does not call


class InterpretedDriver(InterpreterDriver):
    """The interpreter: work on a block that is not live when it runs fails."""

    def __init__(self):
        super().__init__(len(DEVICES))
        self._memories = [DeviceMemory(TOTAL) for _ in DEVICES]
        self._handles_of = {(d, s): s and self.create_stream(d) for d in range(len(DEVICES)) for s in STREAMS}
        self.refuse = 0
        self.may_use_events = True
        self.work = dict.fromkeys(self._handles_of, 0)
        self.completed = dict(self.work)

    @property
    def segments(self):
        return [{a: size for a, (_, size) in memory._buffers.items()} for memory in self._memories]

    def malloc(self, device, nbytes):
        if self.refuse:
            self.refuse -= 1
            raise OutOfMemoryError("none left")
        return super().malloc(device, nbytes)

    def handle(self, device, stream):
        return self._handles_of[device, stream]

    def launch(self, device, stream, pointer):
        before = self.current_device()
        self.set_device(device)
        self.memset(pointer.address, 0, pointer.nbytes, self.handle(device, stream))
        self.set_device(before)

    def complete(self, device, stream):
        before = self.current_device()
        self.set_device(device)
        self.synchronize_stream(self.handle(device, stream))
        self.set_device(before)


class Model:
    """The allocator beside what a correct one would hold."""

    def __init__(self, options=None, driver=HeldDriver):
        self.cuda = driver()
        self.allocator = CachingAllocator(self.cuda, options or AllocatorOptions())
        self.interpreted = driver is InterpretedDriver
        self.guard = self.cuda.guard_bytes and GRANULARITY
        self.live = []
        self.hazards = []
        self.open = {}
        self.pools = {}
        self.peak = [0, 0]
        self.requests = [0, 0]
        self.ceilings = [TOTAL, TOTAL]
        self.retries = 0

    def routed(self, device, stream):
        for (d, pool), streams in self.open.items():
            if d == device and stream in streams:
                return pool
        return (0, 0)

    def malloc(self, nbytes, device, stream):
        self.cuda.set_stream(device, self.cuda.handle(device, stream))
        pointer = self.allocator.allocate(nbytes, DEVICES[device])
        self.cuda.launch(device, stream, pointer)
        self.requests[device] += 1
        assert pointer.address % GRANULARITY == 0 and pointer.nbytes == nbytes
        end = pointer.address + nbytes
        for start, stop, place, position in self.hazards:
            if start < end and pointer.address < stop:
                assert self.cuda.completed[place] >= position, f"{pointer} is still used on {place}"
        self.live.append((pointer, device, stream, self.routed(device, stream), {}))
        held = sum(d == device for _, d, *_ in self.live)
        self.peak[device] = max(self.peak[device], held)

    def free(self, index):
        pointer, device, _, _, uses = self.live.pop(index % len(self.live))
        span = pointer.address, pointer.address + pointer.nbytes
        self.hazards += [(*span, (device, s), position) for s, position in uses.items()]
        self.hazards = [h for h in self.hazards if self.cuda.completed[h[2]] < h[3]]

    def use(self, index, stream):
        pointer, device, own, _, uses = self.live[index % len(self.live)]
        if self.interpreted:
            # The work of its own stream comes first, as a program's wait for an event would have it.
            self.cuda.complete(device, own)
        self.cuda.launch(device, stream, pointer)
        self.allocator.record_stream(pointer, self.cuda.handle(device, stream))
        if stream != own:
            uses[stream] = self.cuda.work[device, stream]

    def fail(self, nbytes, device, stream):
        """Refuse memory at the first attempt or at both; a free block may still serve the request."""
        before = nested_stats(self.allocator, device)
        try:
            self.malloc(nbytes, device, stream)
            failed = 0
        except OutOfMemoryError as error:
            assert f"GPU {device}" in str(error)
            failed = 1
        refused, self.cuda.refuse = self.cuda.refuse, 0
        after = nested_stats(self.allocator, device)
        assert after["num_ooms"] - before["num_ooms"] == failed
        if failed:
            assert after["num_alloc_retries"] - before["num_alloc_retries"] == 1
            self.malloc(1, device, stream)
        return refused

    def empty(self):
        self.allocator.empty_cache()
        if not self.open:
            for segment in snapshot_segments(self.allocator):
                in_use = any(block["state"] != "inactive" for block in segment["blocks"])
                kept = self.pools.get((segment["device"], segment["segment_pool_id"]), 0)
                assert in_use or kept, "a segment that nobody uses was kept"

    def limit(self, device, fraction):
        """Limit the allocator to a fraction of the device's memory; it adds no segment beyond that."""
        set_fraction(self.allocator, device, fraction)
        reserved = nested_stats(self.allocator, device)["reserved_bytes"]["all"]["current"]
        self.ceilings[device] = max(int(TOTAL * fraction), reserved)

    def reset_peaks(self, device):
        reset_peaks(self.allocator, device)
        self.peak[device] = sum(d == device for _, d, *_ in self.live)

    def record(self, enabled):
        """Keep the history of blocks, or no longer."""
        record_history(self.allocator, enabled, max_entries=100)

    def begin(self, device, pool, streams):
        if (device, pool) in self.open:
            with pytest.raises(RuntimeError, match="open already"):
                self.allocator.begin_allocate_to_pool(device, pool, lambda stream: False)
            return
        self.cuda.may_use_events = False
        self.allocator.begin_allocate_to_pool(
            device, pool, lambda stream: stream in {self.cuda.handle(device, s) for s in streams}
        )
        self.open[device, pool] = streams
        self.pools[device, pool] = self.pools.get((device, pool), 0) + 1

    def end(self):
        (device, pool), _ = self.open.popitem()
        self.cuda.may_use_events = not self.open
        self.allocator.end_allocate_to_pool(device, pool)

    def release(self):
        for (device, pool), uses in list(self.pools.items()):
            if (device, pool) in self.open and uses == 1:
                with pytest.raises(RuntimeError, match="is open"):
                    self.allocator.release_pool(device, pool)
            else:
                self.allocator.release_pool(device, pool)
                self.pools[device, pool] -= 1
                if uses == 1:
                    del self.pools[device, pool]
                    with pytest.raises(RuntimeError, match="no pool"):
                        self.allocator.release_pool(device, pool)

    def in_threads(self, seed):
        """Allocate and free concurrently, including blocks that another thread allocated."""
        handed_over, failures = [], []

        def work(number):
            rng, held = random.Random(seed + number), []
            device = number % 2
            self.cuda.set_stream(device, self.cuda.handle(device, number % 3))
            try:
                for _ in range(40):
                    if held and rng.random() < 0.5:
                        (held if rng.random() < 0.7 or not handed_over else handed_over).pop()
                    else:
                        held.append(self.allocator.allocate(rng.choice(SIZES[:SMALL]), DEVICES[device]))
                        if rng.random() < 0.3:
                            handed_over.append(held.pop())
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        before = [nested_stats(self.allocator, d)["allocation"]["all"]["allocated"] for d in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Another thread may have emptied it between the look and the pop.
        assert all(isinstance(error, IndexError) for error in failures)
        handed_over.clear()
        for d in (0, 1):
            stats = nested_stats(self.allocator, d)["allocation"]["all"]
            self.requests[d] += stats["allocated"] - before[d]
            self.peak[d] = stats["peak"]

    def check(self):
        by_address = {pointer.address: entry for entry in self.live for pointer in entry[:1]}
        segments = snapshot_segments(self.allocator)
        counts = [{(m, p): 0 for m in METRICS for p in ("all", "small_pool", "large_pool")} for _ in DEVICES]
        found = 0
        for segment in segments:
            device, stream, pool = segment["device"], segment["stream"], segment["segment_pool_id"]
            reserved = segment["total_size"]
            assert self.cuda.segments[device][segment["address"]] == reserved + self.guard
            kind = segment["segment_type"] + "_pool"

            def add(kind=kind, device=device, **amounts):
                for metric, amount in amounts.items():
                    counts[device][metric, "all"] += amount
                    counts[device][metric, kind] += amount

            add(segment=1, reserved_bytes=reserved)
            address = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == address and block["size"] > 0
                size = block["size"]
                is_free, is_last = block["state"] == "inactive", block is segment["blocks"][-1]
                own = size + (self.guard if is_last or not is_free else 0)
                address += own
                if is_free:
                    if len(segment["blocks"]) > 1:
                        add(inactive_split=1, inactive_split_bytes=own)
                    continue
                add(active=1, active_bytes=size)
                if block["state"] == "active_allocated":
                    found += 1
                    pointer, its_device, its_stream, its_pool, _ = by_address[block["address"]]
                    assert its_device == device and its_pool == pool
                    assert self.cuda.handle(device, its_stream) == stream
                    assert block["requested_size"] == pointer.nbytes <= size
                    add(allocation=1, allocated_bytes=size, requested_bytes=pointer.nbytes)
            assert address == segment["address"] + reserved + self.guard, "blocks do not tile their segment"
        assert found == len(self.live)
        assert sum(map(len, self.cuda.segments)) == len(segments)
        for device in range(len(DEVICES)):
            stats = nested_stats(self.allocator, device)
            for (metric, pool), count in counts[device].items():
                numbers = stats[metric][pool]
                assert numbers["current"] == count, (metric, pool)
                assert numbers["allocated"] - numbers["freed"] == count
                assert numbers["peak"] >= count
            assert stats["allocation"]["all"]["peak"] == self.peak[device]
            assert stats["allocation"]["all"]["allocated"] == self.requests[device]
            assert stats["reserved_bytes"]["all"]["current"] <= self.ceilings[device], "over the limit"
            assert 0 <= stats["num_hits"] <= self.requests[device]

    def finish(self):
        while self.open:
            self.end()
        while self.pools:
            self.release()
        self.live.clear()
        gc.collect()
        for place in self.cuda.work:
            self.cuda.complete(*place)
        self.allocator.empty_cache()
        assert not any(self.cuda.segments)
        for device in range(len(DEVICES)):
            stats = nested_stats(self.allocator, device)
            for metric in METRICS:
                assert all(numbers["current"] == 0 for numbers in stats[metric].values()), metric
