"""`tt.cuda.Stream`: the pool, the current stream, order between streams, and destroyed streams."""

import gc
import threading

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.stream import STREAMS_PER_POOL, StreamPool


@pytest.fixture(autouse=True)
def nothing_changed():
    """Assert that each test leaves the first device current, with its default stream."""
    yield
    assert tt.cuda.current_device() == 0
    assert [tt.cuda.current_stream(i).cuda_stream for i in range(2)] == [0, 0]


def test_a_stream_says_what_it_is():
    stream = tt.cuda.Stream(device=1)
    assert stream.device == tt.device("cuda:1") and stream.device_index == 1 and stream.device_type == 1
    assert stream.cuda_stream != 0 and stream.__cuda_stream__() == (0, stream.cuda_stream)
    assert stream._as_parameter_.value == stream.cuda_stream
    assert repr(stream) == f"<triten.cuda.Stream device=cuda:1 cuda_stream={stream.cuda_stream:#x}>"
    assert tt.cuda.Stream("cuda:1").device_index == 1
    assert tt.cuda.Stream(-1).device_index == tt.cuda.Stream().device_index == 0


def test_the_default_stream_is_number_0_of_each_device():
    first, second = tt.cuda.default_stream(0), tt.cuda.default_stream("cuda:1")
    assert (first.cuda_stream, first.stream_id, second.cuda_stream) == (0, 0, 0)
    assert first != second and first == tt.cuda.current_stream() == tt.cuda.default_stream()


def test_streams_are_equal_if_they_are_the_same_queue():
    stream = tt.cuda.Stream()
    with tt.cuda.stream(stream):
        again = tt.cuda.current_stream()
    assert again == stream and hash(again) == hash(stream) and again is not stream
    assert len({stream, again, tt.cuda.Stream()}) == 2
    assert stream != tt.cuda.default_stream() and stream != stream.cuda_stream
    assert tt.cuda.Stream(stream_id=stream.stream_id, device_index=0, device_type=1) == stream


def test_the_pool_hands_out_32_streams_in_turn():
    pool = StreamPool(driver())
    taken = [pool.take(0, 0) for _ in range(STREAMS_PER_POOL + 1)]
    assert len(set(taken)) == 32 and taken[32] == taken[0]
    assert not {pool.take(1, 0)[0], pool.take(0, -1)[0]} & {handle for handle, _ in taken}
    assert [stream_id for _, stream_id in taken[:3]] == [3, 35, 67], "c10's ids: place, pool, native"


def test_threads_get_different_streams_of_one_pool():
    pool, taken = StreamPool(driver()), []
    threads = [
        threading.Thread(target=lambda: taken.extend(pool.take(0, 0) for _ in range(8))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == 32


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (-1, -1), (-3, -3), (-100, -3), (5, 0)])
def test_a_priority_is_the_nearest_in_the_range(asked, given):
    assert tt.cuda.Stream(priority=asked).priority == given
    assert tt.cuda.Stream.priority_range() == tt.cuda.Stream().priority_range() == (0, -3)


def test_current_streams_belong_to_device_and_thread():
    stream, seen = tt.cuda.Stream(1), []
    with tt.cuda.stream(stream):
        assert tt.cuda.current_device() == 1, "as PyTorch, the stream's device is current too"
        assert tt.cuda.current_stream() == stream == tt.cuda.current_stream("cuda:1")
        assert tt.cuda.current_stream(0) == tt.cuda.default_stream(0)
        thread = threading.Thread(
            target=lambda: seen.append((tt.cuda.current_device(), tt.cuda.current_stream(1)))
        )
        thread.start()
        thread.join()
    assert seen == [(0, tt.cuda.default_stream(1))]


def test_contexts_nest_and_exceptions_put_everything_back():
    a, b = tt.cuda.Stream(0), tt.cuda.Stream(1)
    context = tt.cuda.stream(a)
    assert isinstance(context, tt.cuda.StreamContext)
    with context:
        with pytest.raises(ZeroDivisionError), tt.cuda.stream(b):
            tt.cuda.set_stream(tt.cuda.Stream(1))
            tt.cuda.set_device(0)
            raise ZeroDivisionError
        assert tt.cuda.current_device() == 0 and tt.cuda.current_stream() == a
        assert tt.cuda.current_stream(1) == tt.cuda.default_stream(1)
        with tt.cuda.stream(None):
            assert tt.cuda.current_stream() == a
        with a, b as inner:
            assert inner is b and tt.cuda.current_stream() == b
        assert tt.cuda.current_stream() == a


def test_set_stream_switches_the_device():
    stream = tt.cuda.Stream(1)
    tt.cuda.set_stream(None)
    assert tt.cuda.current_device() == 0
    tt.cuda.set_stream(stream)
    assert (tt.cuda.current_device(), tt.cuda.current_stream()) == (1, stream)
    tt.cuda.set_stream(tt.cuda.default_stream(1))
    tt.cuda.set_device(0)


@pytest.mark.interpreter
def test_streams_run_independently_and_wait_for_each_other():
    side = tt.cuda.Stream()
    with tt.cuda.stream(side):
        x = tt.ones(3, device="cuda") + 1
    assert not side.query()
    tt.cuda.current_stream().wait_stream(side)
    y = x + 1
    x.record_stream(tt.cuda.current_stream())
    assert y.tolist() == [3.0] * 3 and side.query()
    side.synchronize()


@pytest.mark.interpreter
def test_a_missing_wait_shows():
    side = tt.cuda.Stream()
    x = tt.zeros(4, device="cuda")
    tt.cuda.synchronize()
    with tt.cuda.stream(side):
        x.fill_(5)
    assert x.tolist() == [0.0] * 4
    side.synchronize()
    assert x.tolist() == [5.0] * 4


@pytest.mark.interpreter
def test_memory_used_by_another_stream_is_reused_when_that_is_done():
    tt.cuda.synchronize()
    side = tt.cuda.Stream()
    x = tt.full((1000,), 3.0, device="cuda")
    address = x.data_ptr()
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        y = x + 1
    driver().hold(side.cuda_stream)
    x.record_stream(side)
    del x
    gc.collect()
    others = [tt.empty(1000, device="cuda") for _ in range(5)]
    assert address not in [other.data_ptr() for other in others]
    driver().release(side.cuda_stream)
    side.synchronize()
    others += [tt.empty(1000, device="cuda") for _ in range(5)]
    assert address in [other.data_ptr() for other in others]
    with tt.cuda.stream(side):
        assert y.tolist() == [4.0] * 1000


def test_record_stream_refuses():
    x = tt.ones(2, device="cuda")
    with pytest.raises(NotImplementedError, match=r"aten::record_stream.*'CPU' backend"):
        tt.ones(2).record_stream(tt.cuda.current_stream())
    with pytest.raises(
        RuntimeError, match=r"expected a stream of the tensor's device cuda:0, got one of cuda:1"
    ):
        x.record_stream(tt.cuda.Stream(1))
    with pytest.raises(
        TypeError, match=r"record_stream\(\): argument 's'.*must be triten\.cuda\.Stream, not int"
    ):
        x.record_stream(3)
    leaf = tt.ones(2, device="cuda", requires_grad=True)
    assert leaf.record_stream(tt.cuda.Stream()) is None and leaf._version == 0 and leaf.grad_fn is None
    tt.empty(0, device="cuda").record_stream(tt.cuda.Stream())


def test_record_stream_inside_the_layers():
    side = tt.cuda.Stream()

    def program(x):
        y = x + 1
        y.record_stream(side)
        return y * 2

    x = tt.ones(3, 2, device="cuda")
    assert tt.vmap(program)(x).tolist() == [[4.0, 4.0]] * 3
    assert tt.func.grad(lambda x: program(x).sum())(x).tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(RuntimeError, match=r"functionalize: aten::record_stream .* has no functional form"):
        tt.func.functionalize(program)(x)


def test_an_external_stream_is_the_same_queue():
    own = driver().create_stream(1)
    try:
        stream = tt.cuda.ExternalStream(own, device=1)
        assert isinstance(stream, tt.cuda.Stream) and stream.cuda_stream == stream.stream_id == own
        with tt.cuda.stream(stream):
            assert tt.ones(2, device="cuda").tolist() == [1.0, 1.0]
            assert tt.cuda.current_stream() == stream == tt.cuda.get_stream_from_external(own, 1)
        assert tt.cuda.ExternalStream(0, 1) == tt.cuda.default_stream(1)
    finally:
        driver().destroy_stream(own)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.synchronize(),
        lambda s: s.query(),
        lambda s: s.record_event(),
        lambda s: s.wait_stream(tt.cuda.default_stream()),
        lambda s: tt.cuda.default_stream().wait_stream(s),
        lambda s: s.priority,
        lambda s: tt.cuda.set_stream(s),
        lambda s: tt.cuda.stream(s).__enter__(),
        lambda s: s.__enter__(),
        lambda s: tt.cuda.ExternalStream(s.cuda_stream),
        lambda s: driver().destroy_stream(s.cuda_stream),
        lambda s: driver().memset(0, 0, 4, s.cuda_stream),
        lambda s: driver().hold(s.cuda_stream),
    ],
)
def test_a_dead_stream_is_refused_and_all_goes_on(use):
    dead = tt.cuda.ExternalStream(driver().create_stream(0))
    event = tt.cuda.default_stream().record_event()
    driver().destroy_stream(dead.cuda_stream)
    with pytest.raises(RuntimeError, match=r"CUDA error: invalid resource handle: stream 0x"):
        use(dead)
    event.synchronize()
    assert (tt.ones(2, device="cuda") + 1).tolist() == [2.0, 2.0]


@pytest.mark.interpreter
def test_a_stream_that_dies_while_it_is_current_refuses_work():
    handle = driver().create_stream(0)
    x = tt.ones(2, device="cuda")
    with tt.cuda.stream(tt.cuda.ExternalStream(handle)):
        with tt.cuda.stream(tt.cuda.Stream()):
            driver().destroy_stream(handle)
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            x.fill_(2)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.interpreter
def test_work_of_a_destroyed_stream_is_still_done():
    handle = driver().create_stream(0)
    with tt.cuda.stream(tt.cuda.ExternalStream(handle)):
        x = tt.ones(4, device="cuda") + 1
    driver().destroy_stream(handle)
    tt.cuda.synchronize()
    assert x.tolist() == [2.0] * 4
    del x
    gc.collect()
    tt.cuda.synchronize()


@pytest.mark.interpreter
def test_an_unknown_handle_is_refused():
    for make in (tt.cuda.ExternalStream, tt.cuda.get_stream_from_external):
        with pytest.raises(RuntimeError, match="invalid resource handle: stream 0xdead0"):
            make(0xDEAD0)
    with pytest.raises(RuntimeError, match="was given for device 1"):
        tt.cuda.ExternalStream(tt.cuda.Stream(0).cuda_stream, 1)
    with pytest.raises(RuntimeError, match="the default stream cannot be destroyed"):
        driver().destroy_stream(0)


@pytest.mark.interpreter
def test_a_stream_of_another_device_takes_no_kernels():
    other = tt.cuda.Stream(1)
    x = tt.ones(2, device="cuda")
    driver().set_stream(0, other.cuda_stream)
    try:
        with pytest.raises(RuntimeError, match=r"device 0 was launched on stream .* of device 1"):
            x.fill_(3)
    finally:
        driver().set_stream(0, 0)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: tt.cuda.Stream("cpu"), ValueError),
        (lambda: tt.cuda.Stream(7), RuntimeError),
        (lambda: tt.cuda.Stream(priority="high"), TypeError),
        (lambda: tt.cuda.Stream(speed=3), TypeError),
        (lambda: tt.cuda.Stream(stream_id=1 << 20 | 1, device_index=0), RuntimeError),
        (lambda: tt.cuda.ExternalStream("0x3"), TypeError),
        (lambda: tt.cuda.current_stream(9), RuntimeError),
        (lambda: tt.cuda.default_stream("cpu"), ValueError),
        (lambda: tt.cuda.set_stream(3), AttributeError),
    ],
)
def test_bad_streams_are_refused(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.interpreter
def test_ready_work_runs_by_priority():
    cuda = driver()
    tt.cuda.synchronize()
    low, high, blocked = (tt.cuda.Stream(priority=p) for p in (0, -2, -3))
    order = []
    blocked.wait_stream(low)
    for name, stream in (("low", low), ("high", high), ("blocked", blocked)):
        for i in range(2):
            cuda.stream(stream.cuda_stream).enqueue(lambda name=name, i=i: order.append(f"{name}{i}"))
    event = low.record_event()
    blocked.wait_event(event)
    cuda.stream(blocked.cuda_stream).enqueue(lambda: order.append("last"))
    assert cuda.step() and order == ["high0"]
    tt.cuda.synchronize()
    assert order == ["high0", "high1", "blocked0", "blocked1", "low0", "low1", "last"]
