"""Streams that a test holds back run nothing, and a wait that cannot end raises an error."""

import threading
from contextlib import contextmanager

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.tests.shared.threads import PATIENCE, eventually, join

pytestmark = pytest.mark.interpreter


@contextmanager
def held(*streams, releaser=None):
    """Hold streams within the block, and release them at its end."""
    cuda = driver()
    for stream in streams:
        cuda.hold(stream.cuda_stream, stream.device_index, releaser)
    try:
        yield
    finally:
        for stream in streams:
            if cuda.stream(stream.cuda_stream, stream.device_index).releaser is not None:
                cuda.release(stream.cuda_stream, stream.device_index)


def ones(stream, n=4):
    with tt.cuda.stream(stream):
        return tt.ones(n, device=stream.device)


def waits(thread):
    """Return True if a thread waits for a release."""
    return thread in driver().scheduler._waiting


@pytest.fixture
def stream():
    tt.cuda.synchronize()
    made = tt.cuda.Stream()
    yield made
    tt.cuda.synchronize()


def test_a_held_stream_does_not_run(stream):
    with held(stream):
        x = ones(stream)
        for _ in range(50):
            assert not stream.query()
        assert (tt.ones(2, device="cuda") + 1).tolist() == [2.0, 2.0], "other streams run on"
        driver().release(stream.cuda_stream)
        stream.synchronize()
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, x: stream.synchronize(),
        lambda stream, x: tt.cuda.synchronize(),
        lambda stream, x: stream.record_event().synchronize(),
        lambda stream, x: (tt.cuda.current_stream().wait_stream(stream), x.tolist()),
        lambda stream, x: tt.cuda.empty_cache() or driver().free(0, driver().malloc(0, 512)),
    ],
)
def test_who_waits_for_its_own_hold_is_told(stream, wait):
    with held(stream):
        x = ones(stream)
        with pytest.raises(
            RuntimeError, match=r"deadlock: stream 0x.* of device 0 is held with .* this very thread"
        ):
            wait(stream, x)
    tt.cuda.synchronize()
    assert x.tolist() == [1.0] * 4, "nothing was lost or passed over by the refused wait"


def test_a_hold_in_a_chain_of_streams_is_found(stream):
    middle, last = tt.cuda.Stream(), tt.cuda.Stream()
    with held(stream):
        x = ones(stream)
        middle.wait_stream(stream)
        with tt.cuda.stream(middle):
            y = x + 1
        last.wait_stream(middle)
        with tt.cuda.stream(last):
            z = y + 1
            with pytest.raises(RuntimeError, match="deadlock"):
                z.tolist()
    with tt.cuda.stream(last):
        assert z.tolist() == [3.0] * 4, "the order holds after the refusal"


def test_another_thread_waits_until_the_release(stream):
    got = []
    with held(stream):
        x = ones(stream)

        def wait():
            with tt.cuda.stream(stream):
                got.append(x.tolist())

        thread = threading.Thread(target=wait)
        thread.start()
        assert eventually(lambda: waits(thread))
        assert got == [] and (tt.ones(2, device="cuda") + 1).tolist() == [2.0, 2.0], (
            "the wait blocks nobody else"
        )
    join(thread)
    assert got == [[1.0] * 4]


def test_the_holder_may_name_who_releases(stream):
    release = threading.Event()

    def releasing():
        release.wait(PATIENCE)
        driver().release(stream.cuda_stream)

    thread = threading.Thread(target=releasing)
    thread.start()
    with held(stream, releaser=thread):
        x = ones(stream)
        release.set()
        stream.synchronize()
    thread.join()
    assert x.tolist() == [1.0] * 4


def test_a_releaser_that_has_ended_is_no_hope(stream):
    main = threading.current_thread()
    thread = threading.Thread(target=lambda: eventually(lambda: waits(main)), name="gone")
    thread.start()
    with held(stream, releaser=thread):
        ones(stream)
        with pytest.raises(RuntimeError, match="gone, which was to release it, has ended"):
            stream.synchronize()


def test_two_threads_that_wait_for_each_others_hold(stream):
    other, errors = tt.cuda.Stream(), []
    ready = threading.Barrier(2)

    def wait_for(mine, its):
        with held(mine):
            ones(mine)
            ready.wait()
            try:
                its.synchronize()
            except RuntimeError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=wait_for, args=pair) for pair in ((stream, other), (other, stream))]
    for thread in threads:
        thread.start()
    join(*threads)
    assert len(errors) == 1 and "which is to release it, waits for this thread" in errors[0]


def test_patience_ends(stream, monkeypatch):
    monkeypatch.setattr(driver().scheduler, "patience", 0.1)
    errors = []

    def wait():
        try:
            stream.synchronize()
        except RuntimeError as error:
            errors.append(str(error))

    with held(stream):
        ones(stream)
        thread = threading.Thread(target=wait)
        thread.start()
        join(thread)
    assert len(errors) == 1 and "MainThread has not released it for 0.1 seconds" in errors[0]


def test_a_full_queue_that_is_held():
    with held(tt.cuda.default_stream()):
        x = tt.ones(1, device="cuda")
        with pytest.raises(RuntimeError, match=r"deadlock.* is held with 10.. operations pending"):
            for _ in range(1100):
                x.add_(1)
    assert x.item() > 1000


def test_step_runs_one_piece_even_of_a_held_stream(stream):
    cuda, order = driver(), []
    with held(stream):
        for i in range(3):
            cuda.stream(stream.cuda_stream).enqueue(lambda i=i: order.append(i))
        assert not cuda.step(), "on the device nothing is ready"
        assert cuda.step(stream.cuda_stream) and order == [0]
        assert not stream.query() and order == [0]
    assert cuda.step() and order == [0, 1]
    assert cuda.step(stream.cuda_stream) and not cuda.step(stream.cuda_stream) and order == [0, 1, 2]


def test_step_does_not_pass_a_wait(stream):
    other = tt.cuda.Stream()
    x = ones(other)
    stream.wait_stream(other)
    assert not driver().step(stream.cuda_stream)
    tt.cuda.synchronize()
    del x


def test_holds_are_checked(stream):
    with held(stream), pytest.raises(RuntimeError, match="held already, by MainThread"):
        driver().hold(stream.cuda_stream)
    with pytest.raises(RuntimeError, match="is not held"):
        driver().release(stream.cuda_stream)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        driver().release(0xBAD)


def test_long_ping_pong_needs_no_recursion():
    cuda = InterpreterDriver(1)
    a, b = cuda.create_stream(0), cuda.create_stream(0)
    order = []
    for i in range(1500):
        here, there = (a, b) if i % 2 else (b, a)
        event = cuda.create_event()
        cuda.record_event(event, there)
        cuda.wait_event(here, event)
        cuda.stream(here).enqueue(lambda i=i: order.append(i))
    cuda.synchronize_stream(here)
    assert order == list(range(1500))


def test_launch_blocking_runs_at_once(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert InterpreterDriver(1).launch_blocking
    monkeypatch.setattr(driver(), "launch_blocking", True)
    side = tt.cuda.Stream()
    with tt.cuda.stream(side):
        x = tt.ones(2, device="cuda")
    assert side.query() and x.tolist() == [1.0, 1.0]
