"""Streams, events and graphs over the executing stand-in: work runs late, in the worst legal order."""

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver

pytestmark = pytest.mark.standin(execute=1)
N = 4096


def tensors(count=3):
    made = [tt.full((N,), float(i + 1), device="cuda") for i in range(count)]
    tt.cuda.synchronize()
    return made


def test_a_launch_runs_when_something_waits_and_not_before(standin):
    a, b, _ = tensors()
    stream = tt.cuda.Stream()
    with tt.cuda.stream(stream):
        tt.add(a, a, out=b)
    assert not stream.query()
    raw = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * N).from_address(b.data_ptr()))
    assert (raw == 2).all(), "it has not run, though it was enqueued"
    stream.synchronize()
    assert stream.query()
    assert (raw == 2).all() and (b.cpu().numpy() == 2).all()
    tt.mul(a, 5, out=b)
    assert (raw == 2).all()
    tt.cuda.synchronize()
    assert (raw == 5).all()


@pytest.mark.parametrize("waits", [True, False])
def test_an_event_orders_two_streams_and_without_it_the_result_is_wrong(standin, waits):
    a, b, out = tensors()
    first, second = tt.cuda.Stream(), tt.cuda.Stream()
    with tt.cuda.stream(first):
        tt.mul(a, 10, out=b)
    if waits:
        second.wait_stream(first)
    with tt.cuda.stream(second):
        tt.add(b, 1, out=out)
    second.synchronize()
    assert (out.cpu().numpy() == (11 if waits else 3)).all()
    tt.cuda.synchronize()


def test_a_copy_to_the_host_without_a_wait_brings_what_was_there(standin):
    a, b, _ = tensors()
    host = tt.empty(N, pin_memory=True)
    side = tt.cuda.Stream()
    tt.mul(a, 7, out=b)
    with tt.cuda.stream(side):
        host.copy_(b, non_blocking=True)
    side.synchronize()
    assert (host.numpy() == 2).all(), "the side stream did not wait for the default one"
    tt.cuda.synchronize()
    with tt.cuda.stream(side):
        host.copy_(b, non_blocking=True)
    side.synchronize()
    assert (host.numpy() == 7).all()


def test_streams_of_cupys_that_block_wait_for_the_default_one(standin):
    import cupy

    a, b, out = tensors()
    blocking = cupy.cuda.Stream()
    tt.mul(a, 3, out=b)
    with tt.cuda.stream(tt.cuda.ExternalStream(blocking.ptr)):
        tt.add(b, 1, out=out)
    blocking.synchronize()
    assert (out.cpu().numpy() == 4).all()


@pytest.mark.parametrize("records", [True, False])
def test_memory_that_another_stream_uses_is_not_reused_once_that_is_recorded(standin, records):
    side = tt.cuda.Stream()
    out = tt.zeros(N, device="cuda")
    data = tt.full((N,), 3.0, device="cuda")
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        tt.add(data, 1, out=out)
    address = data.data_ptr()
    if records:
        data.record_stream(side)
    del data
    other = tt.full((N,), 9.0, device="cuda")
    assert (other.data_ptr() == address) is not records
    tt.cuda.current_stream().synchronize()
    side.synchronize()
    got = out.cpu().numpy()
    assert (got == 4).all() if records else (got == 10).all()


def test_a_graph_replays_with_what_lies_in_its_inputs_then(standin):
    x = tt.ones(N, device="cuda")
    weight = tt.full((N,), 2.0, device="cuda")

    def step():
        y = (x * weight).relu()
        return y + y.sum() * 0

    step()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        out = step()
    launches = len(standin.launches)
    for value in (1.0, -3.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert (out.cpu().numpy() == max(2 * value, 0)).all()
    assert standin.counts["cuGraphLaunch"] == 3
    assert len(standin.launches) == launches + 3, "the fills: a replay launches no kernel by itself"


@pytest.mark.parametrize("joins", [True, False])
def test_a_graph_of_two_streams_runs_in_the_order_of_its_events(standin, joins):
    x, middle, out = tensors()
    main, side = tt.cuda.Stream(), tt.cuda.Stream()
    cuda = driver()

    def work(event):
        tt.mul(x, 10, out=middle)
        cuda.record_event(event, main.cuda_stream)
        cuda.wait_event(side.cuda_stream, event)
        with tt.cuda.stream(side):
            tt.add(middle, 1, out=out)

    event, back = cuda.create_event(), cuda.create_event()
    with tt.cuda.stream(main):
        work(event)
        tt.cuda.synchronize()
        cuda.begin_capture(main.cuda_stream, "relaxed")
        work(event)
        if joins:
            cuda.record_event(back, side.cuda_stream)
            cuda.wait_event(main.cuda_stream, back)
            graph = cuda.end_capture(main.cuda_stream)
        else:
            with pytest.raises(RuntimeError, match="unjoined work"):
                cuda.end_capture(main.cuda_stream)
            return
    executable = cuda.instantiate_graph(graph)
    for value in (2.0, 3.0):
        x.fill_(value)
        out.zero_()
        tt.cuda.synchronize()
        cuda.launch_graph(executable, main.cuda_stream)
        main.synchronize()
        assert (out.cpu().numpy() == 10 * value + 1).all()
    cuda.destroy_executable(executable)
    cuda.destroy_graph(graph)


def test_copies_and_fills_of_a_graph_are_done_at_each_replay(standin):
    cuda = driver()
    first, second = tt.zeros(64, device="cuda"), tt.ones(64, device="cuda")
    stream = cuda.create_stream(0)
    tt.cuda.synchronize()
    cuda.begin_capture(stream)
    cuda.copy_device_to_device(first.data_ptr(), second.data_ptr(), 256, stream)
    cuda.memset(second.data_ptr(), 0, 256, stream)
    graph = cuda.end_capture(stream)
    executable = cuda.instantiate_graph(graph)
    assert (first.cpu().numpy() == 0).all(), "captured work does not run"
    for value in (7.0, 8.0):
        second.fill_(value)
        tt.cuda.synchronize()
        cuda.launch_graph(executable, stream)
        cuda.synchronize_stream(stream)
        assert (first.cpu().numpy() == value).all()
        assert (second.cpu().numpy() == 0).all()


def test_times_between_events_and_questions(standin):
    start, end = tt.cuda.Event(enable_timing=True), tt.cuda.Event(enable_timing=True)
    a, b, _ = tensors()
    start.record()
    tt.add(a, a, out=b)
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def test_a_function_of_the_host_runs_when_its_stream_comes_to_it(standin):
    import cupy

    a, b, _ = tensors()
    stream = cupy.cuda.Stream(non_blocking=True)
    seen = []
    with tt.cuda.stream(tt.cuda.ExternalStream(stream.ptr)):
        tt.mul(a, 4, out=b)
        stream.launch_host_func(lambda _: seen.append(len(seen)), None)
    assert seen == []
    stream.synchronize()
    assert seen == [0]
