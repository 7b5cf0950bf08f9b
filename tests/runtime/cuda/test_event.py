"""`tt.cuda.Event` is created at its first record, on the stream's device; waits, queries, times."""

import gc

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver


def test_an_event_is_made_when_it_is_recorded():
    event = tt.cuda.Event()
    assert (event.cuda_event, event.device, repr(event)) == (0, None, "<triten.cuda.Event uninitialized>")
    assert event.query() and event.wait() is None and event.synchronize() is None
    event.record(tt.cuda.Stream(1))
    assert event.device == tt.device("cuda:1") and event._as_parameter_.value == event.cuda_event != 0
    assert repr(event) == f"<triten.cuda.Event {event.cuda_event:#x}>"


@pytest.mark.interpreter
def test_an_event_is_given_back_with_its_object():
    gc.collect()
    before = len(driver()._events)
    event = tt.cuda.current_stream().record_event()
    assert len(driver()._events) == before + 1
    del event
    gc.collect()
    assert len(driver()._events) == before


@pytest.mark.interpreter
def test_an_event_is_done_when_what_comes_before_it_is():
    stream = tt.cuda.Stream()
    with tt.cuda.stream(stream):
        x = tt.ones(2, device="cuda") + 1
        event = tt.cuda.Event()
        event.record()
        y = x + 1
    event.synchronize()
    assert event.query() and not stream.query()
    tt.cuda.current_stream().wait_event(event)
    assert x.tolist() == [2.0, 2.0] and not stream.query()
    stream.synchronize()
    assert y.tolist() == [3.0, 3.0]


@pytest.mark.interpreter
def test_a_second_recording_replaces_the_first():
    first, second = tt.cuda.Stream(), tt.cuda.Stream()
    with tt.cuda.stream(first):
        x = tt.ones(2, device="cuda")
    event = first.record_event()
    with tt.cuda.stream(second):
        y = tt.ones(2, device="cuda")
    assert second.record_event(event) is event
    event.synchronize()
    assert second.query() and not first.query()
    tt.cuda.synchronize()
    del x, y


def test_streams_of_other_devices_wait_but_do_not_record():
    stream = tt.cuda.Stream(1)
    event = stream.record_event()
    event.wait(tt.cuda.default_stream(0))
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        event.record(tt.cuda.current_stream(0))
    event.record(tt.cuda.default_stream(1))
    assert tt.cuda.current_device() == 0


@pytest.mark.interpreter
def test_times():
    start, end = (tt.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = tt.ones(100, device="cuda") * 2
    end.record()
    driver().hold(0)
    try:
        with pytest.raises(RuntimeError, match="Both events must be completed"):
            start.elapsed_time(end)
    finally:
        driver().release(0)
    end.synchronize()
    assert start.elapsed_time(end) > 0.0 > end.elapsed_time(start)
    del x


def test_times_are_refused_by_what_is_missing():
    timed, plain = tt.cuda.Event(enable_timing=True), tt.cuda.Event()
    with pytest.raises(ValueError, match=r"must be created with argument 'enable_timing=True'"):
        timed.elapsed_time(plain)
    timed.record()
    with pytest.raises(ValueError, match="must be recorded before"):
        timed.elapsed_time(tt.cuda.Event(enable_timing=True))
    other = tt.cuda.Event(enable_timing=True)
    other.record(tt.cuda.default_stream(1))
    tt.cuda.synchronize(0)
    tt.cuda.synchronize(1)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        timed.elapsed_time(other)


@pytest.mark.interpreter
def test_interprocess_events_need_a_gpu():
    with pytest.raises(RuntimeError, match="must be created with argument 'interprocess=True'"):
        tt.cuda.Event().ipc_handle()
    with pytest.raises(RuntimeError, match="belong to one process"):
        tt.cuda.Event(interprocess=True).ipc_handle()
    with pytest.raises(RuntimeError, match="belong to one process"):
        tt.cuda.Event.from_ipc_handle(0, b"")
    with pytest.raises(RuntimeError, match="an interprocess event has no timing"):
        tt.cuda.Event(enable_timing=True, interprocess=True).record()
    assert tt.cuda.Event(blocking=True, external=True).query()


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "use",
    [
        lambda cuda, event: cuda.record_event(event, 0),
        lambda cuda, event: cuda.wait_event(0, event),
        lambda cuda, event: cuda.query_event(event),
        lambda cuda, event: cuda.synchronize_event(event),
        lambda cuda, event: cuda.elapsed(event, event),
        lambda cuda, event: cuda.destroy_event(event),
        lambda cuda, event: cuda.export_event(event),
    ],
)
def test_a_dead_event_is_refused_and_all_goes_on(use):
    cuda = driver()
    event = cuda.create_event(timing=True)
    cuda.record_event(event, 0)
    cuda.destroy_event(event)
    with pytest.raises(RuntimeError, match=r"CUDA error: invalid resource handle: event 0x"):
        use(cuda, event)
    assert tt.ones(1, device="cuda").item() == 1.0
