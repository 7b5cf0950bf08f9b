"""Page-locked host memory: the allocator's algorithm, and pinned tensors."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.runtime.cuda.memory.pinned import PINNED_ALLOCATOR, CachingHostAllocator
from triten.runtime.errors import OutOfMemoryError
from triten.tests.shared.pinned_model import PinnedModel
from triten.tests.shared.threads import PATIENCE

FACTORIES = [
    lambda pin: tt.empty(3, 5, pin_memory=pin),
    lambda pin: tt.empty((2, 3, 4, 4), memory_format=tt.channels_last, pin_memory=pin),
    lambda pin: tt.empty_strided((2, 3), (4, 1), pin_memory=pin),
    lambda pin: tt.zeros(3, pin_memory=pin),
    lambda pin: tt.zeros(3000, pin_memory=pin),
    lambda pin: tt.ones(2, 3, pin_memory=pin),
    lambda pin: tt.full((4,), 7, pin_memory=pin),
    lambda pin: tt.eye(3, pin_memory=pin),
    lambda pin: tt.arange(5, pin_memory=pin),
    lambda pin: tt.arange(1, 9, 2, pin_memory=pin),
    lambda pin: tt.linspace(0, 1, 5, pin_memory=pin),
    lambda pin: tt.scalar_tensor(3.0, pin_memory=pin),
    lambda pin: tt.rand(4, pin_memory=pin),
    lambda pin: tt.randn(4, generator=tt.Generator(), pin_memory=pin),
    lambda pin: tt.randint(9, (4,), pin_memory=pin),
    lambda pin: tt.randperm(5, pin_memory=pin),
    lambda pin: tt.normal(0.0, 1.0, (3,), pin_memory=pin),
    lambda pin: tt.tensor([[1, 2], [3, 4]], pin_memory=pin),
    lambda pin: tt.tensor(2.5, pin_memory=pin),
    lambda pin: tt.empty_like(tt.ones(3), pin_memory=pin),
    lambda pin: tt.zeros_like(tt.ones(3), pin_memory=pin),
    lambda pin: tt.ones_like(tt.ones(3), pin_memory=pin),
    lambda pin: tt.full_like(tt.ones(3), 2, pin_memory=pin),
    lambda pin: tt.rand_like(tt.ones(3), pin_memory=pin),
    lambda pin: tt.randn_like(tt.ones(3), pin_memory=pin),
    lambda pin: tt.randint_like(tt.ones(3), 5, pin_memory=pin),
    lambda pin: tt.ones(3).new_empty((2,), pin_memory=pin),
    lambda pin: tt.ones(3).new_zeros((2,), pin_memory=pin),
    lambda pin: tt.ones(3).new_ones((2,), pin_memory=pin),
    lambda pin: tt.ones(3).new_full((2,), 4, pin_memory=pin),
    lambda pin: tt.ones(3).new_empty_strided((2,), (1,), pin_memory=pin),
    lambda pin: tt.ones(3, device="cuda").to(device="cpu", pin_memory=pin),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_factories_pin(make):
    tt.manual_seed(0)
    plain = make(False)
    tt.manual_seed(0)
    pinned = make(True)
    assert pinned.is_pinned() and not plain.is_pinned() and not make(None).is_pinned()
    assert (pinned.shape, pinned.stride(), pinned.dtype) == (plain.shape, plain.stride(), plain.dtype)
    assert pinned.data_ptr() % 64 == 0
    pinned.fill_(1)
    assert pinned.sum().item() == pinned.numel()


@pytest.mark.parametrize("make", [FACTORIES[i] for i in (5, 6, 7, 8, 10, 12, 13, 14, 15, 17, 18)])
def test_pinned_factories_fill_as_others(make):
    tt.manual_seed(0)
    plain = make(False)
    tt.manual_seed(0)
    assert make(True).tolist() == plain.tolist()


def test_pin_memory_copies_once():
    x = tt.arange(6.0).view(2, 3).t()
    pinned = x.pin_memory()
    assert pinned is not x and pinned.is_pinned() and not x.is_pinned()
    assert pinned.stride() == x.stride() and pinned.tolist() == x.tolist()
    assert pinned.pin_memory() is pinned and pinned.pin_memory("cuda") is pinned
    assert (
        pinned[1:].is_pinned()
        and not (pinned + 1).is_pinned()
        and not tt.empty(0, pin_memory=True).is_pinned()
    )
    assert pinned.numpy().sum() == 15.0
    assert tt.ones(1).expand(4).pin_memory().tolist() == [1.0] * 4


def test_pin_memory_is_differentiable():
    x = tt.ones(3, requires_grad=True)
    (x.pin_memory() * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_pin_memory_inside_vmap():
    x = tt.arange(6.0).view(3, 2)
    assert tt.vmap(lambda x: x.pin_memory() * x.is_pinned())(x).tolist() == [[0.0, 0.0]] * 3
    assert tt.vmap(lambda x: x.pin_memory() * 2)(x.pin_memory()).tolist() == (x * 2).tolist()


def test_tensors_elsewhere_are_not_pinned():
    assert not tt.ones(2, device="cuda").is_pinned() and not tt.ones(2, device="meta").is_pinned()
    with pytest.raises(RuntimeError, match=r"cannot pin .*'cuda:0' only dense CPU tensors can be pinned"):
        tt.ones(2, device="cuda").pin_memory()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        tt.zeros(2, device="cuda", pin_memory=True)
    with pytest.raises(RuntimeError, match="expected a CUDA device"):
        tt.ones(2).pin_memory("meta")
    assert tt.zeros(2, device="meta", pin_memory=True).is_meta


def test_the_memory_lives_as_long_as_any_view():
    def made():
        return tt.arange(1000, pin_memory=True)[10:20].numpy()[2:]

    view = made()
    gc.collect()
    others = [tt.full((1000,), -1, pin_memory=True) for _ in range(4)]
    assert view.tolist() == list(range(12, 20))
    del others


class Allocators:
    """Allocator over a driver of its own."""

    def __init__(self, monkeypatch):
        self.cuda = InterpreterDriver(2)
        monkeypatch.setattr("triten.runtime.cuda.memory.pinned.driver", lambda: self.cuda)
        self.allocator = CachingHostAllocator()


@pytest.fixture
def own(monkeypatch):
    return Allocators(monkeypatch)


def test_blocks_are_powers_of_two_and_reused(own):
    pointer = own.allocator.allocate(1000)
    address = pointer.address
    assert own.allocator.find(address + 1023).nbytes == 1024 and own.allocator.find(address + 1024) is None
    assert own.allocator.allocate(0).address == 0
    del pointer
    again = own.allocator.allocate(700)
    assert again.address == address and own.allocator.allocate(512).address != address


@pytest.mark.interpreter
def test_a_block_is_reused_only_after_the_copies_that_use_it(own):
    cuda, allocator = own.cuda, own.allocator
    stream = cuda.create_stream(0)
    pointer = allocator.allocate(1024)
    address = pointer.address
    cuda.hold(stream)
    cuda.stream(stream).enqueue(lambda: None)
    allocator.record_event(allocator.find(address), 0, stream)
    cuda.set_device(1)
    allocator.record_event(allocator.find(address), 1, 0)
    cuda.set_device(0)
    del pointer
    assert [allocator.allocate(1024).address == address for _ in range(5)] == [False] * 5
    assert allocator.stats()["active_requests"]["current"] == 1
    cuda.release(stream)
    for device in range(2):
        cuda.synchronize(device)
    assert allocator.stats()["active_requests"]["current"] == 0
    assert address in [pointer.address for pointer in [allocator.allocate(1024) for _ in range(2)]]
    assert not cuda._events


@pytest.mark.interpreter
def test_a_destroyed_stream_does_not_keep_a_block(own):
    cuda, allocator = own.cuda, own.allocator
    stream = cuda.create_stream(0)
    pointer = allocator.allocate(64)
    address = pointer.address
    cuda.stream(stream).enqueue(lambda: None)
    allocator.record_event(allocator.find(address), 0, stream)
    cuda.destroy_stream(stream)
    del pointer
    cuda.synchronize(0)
    assert allocator.allocate(64).address == address


@pytest.mark.interpreter
def test_a_query_that_raises_hands_no_block_out_twice(own, monkeypatch):
    pointers = [own.allocator.allocate(64) for _ in range(3)]
    addresses = {pointer.address for pointer in pointers}
    own.allocator.record_event(own.allocator.find(pointers[1].address), 0, 0)
    pointers.clear()

    def fail(event):
        raise RuntimeError("CUDA error: unspecified launch failure")

    with monkeypatch.context() as patch:
        patch.setattr(own.cuda, "query_event", fail)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="unspecified launch failure"):
                own.allocator.allocate(64)
    own.cuda.synchronize(0)
    again = [own.allocator.allocate(64) for _ in range(3)]
    assert {pointer.address for pointer in again} == addresses
    assert own.allocator.stats()["active_requests"]["current"] == 3


@pytest.mark.interpreter
def test_running_out_empties_the_cache_and_then_says_so(own):
    own.cuda.host_memory.total = 4096
    del_me = own.allocator.allocate(2048)
    del del_me
    whole = own.allocator.allocate(4096)
    with pytest.raises(OutOfMemoryError, match="bytes of page-locked memory requested"):
        own.allocator.allocate(1)
    del whole
    assert own.allocator.allocate(1).nbytes == 1
    own.allocator.empty_cache()
    assert own.cuda.host_memory.used == 0


def test_frees_inside_garbage_collection_take_no_lock(own):
    pointer = own.allocator.allocate(64)
    freed = threading.Event()

    def free():
        nonlocal pointer
        pointer = None
        freed.set()

    with own.allocator._lock:
        thread = threading.Thread(target=free)
        thread.start()
        assert freed.wait(PATIENCE)
    thread.join()
    assert own.allocator.stats()["active_requests"]["current"] == 0


def test_threads_share_the_allocator(own):
    errors = []

    def work(seed):
        generator = np.random.default_rng(seed)
        live = []
        for _ in range(200):
            pointer = own.allocator.allocate(int(generator.integers(1, 5000)))
            view = (np.ctypeslib.ctypes.c_ubyte * pointer.nbytes).from_address(pointer.address)
            view[0], view[-1] = seed, seed
            live.append((pointer, view))
            if len(live) > 5:
                _, old = live.pop(0)
                if old[0] != seed or old[-1] != seed:
                    errors.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert own.allocator.stats()["active_requests"]["current"] == 0


def test_statistics_by_pytorchs_names():
    x = tt.empty(1000, pin_memory=True)
    stats = tt.cuda.host_memory_stats()
    nested = tt.cuda.host_memory_stats_as_nested_dict()
    assert nested["active_bytes"]["current"] == stats["active_bytes.current"] >= 4096
    assert stats["num_host_alloc"] == stats["allocations.allocated"]
    assert {name.partition(".")[2] for name in stats if name.startswith("active_requests")} == {
        "current",
        "peak",
        "allocated",
        "freed",
    }
    assert {"total", "max", "min", "count", "avg"} == set(nested["host_alloc_time"])
    del x
    tt.cuda.reset_peak_host_memory_stats()
    after = tt.cuda.host_memory_stats()
    assert after["active_bytes.peak"] >= after["active_bytes.current"]
    tt.cuda.reset_accumulated_host_memory_stats()
    reset = tt.cuda.host_memory_stats()
    assert reset["active_bytes.allocated"] == reset["host_alloc_time.count"] == 0


class Policy(RuleBasedStateMachine):
    """Stateful test of malloc, free, copies on streams, their ends and emptying the cache, against a model."""

    def __init__(self):
        super().__init__()
        self.model = PinnedModel()

    @rule(nbytes=st.integers(1, 3000))
    def malloc(self, nbytes):
        self.model.malloc(nbytes)

    @precondition(lambda self: self.model.live)
    @rule(index=st.integers(0, 100))
    def free(self, index):
        self.model.free(index)

    @precondition(lambda self: self.model.live)
    @rule(index=st.integers(0, 100), which=st.integers(0, 1))
    def copy(self, index, which):
        self.model.copy(index, which)

    @rule(which=st.integers(0, 1))
    def step(self, which):
        self.model.step(which)

    @rule()
    def empty(self):
        self.model.empty()

    @invariant()
    def holds(self):
        self.model.check()

    def teardown(self):
        self.model.finish()


TestPolicy = pytest.mark.interpreter(Policy.TestCase)
TestPolicy.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_the_process_allocator_is_asked_about_any_address():
    x = tt.empty(10, pin_memory=True)
    assert PINNED_ALLOCATOR.find(x.data_ptr()) is PINNED_ALLOCATOR.find(x.data_ptr() + 39)
    assert PINNED_ALLOCATOR.find(tt.empty(10).data_ptr()) is None
    own = driver().malloc_host(100)
    try:
        assert driver().is_page_locked(own + 99), "memory that others page-locked is pinned too"
    finally:
        driver().free_host(own)


@pytest.mark.interpreter
def test_host_memory_is_freed_once():
    own = driver().malloc_host(100)
    driver().free_host(own)
    with pytest.raises(RuntimeError, match="no page-locked memory at"):
        driver().free_host(own)
    assert not driver().is_page_locked(own)
