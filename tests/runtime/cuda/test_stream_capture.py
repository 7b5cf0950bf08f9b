"""Stream capture at the driver: the recorded work, forks and joins of streams, and CUDA's errors."""

import threading

import numpy as np
import pytest
import triton
import triton.language as tl

from triten.runtime.cuda.capture import relaxed_capture


@triton.jit
def add_kernel(x, value, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index) + value)


@triton.jit
def scale_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index) * 10)


@triton.jit
def fresh_kernel(x):
    tl.store(x, 1)


def add(cuda, address, stream, value=1):
    kernel = cuda.driver.compile(add_kernel, {"x": "*i32", "value": "i32"}, {"BLOCK": 4})
    kernel.launch((1, 1, 1), stream, address, value)


def scale(cuda, source, target, stream):
    kernel = cuda.driver.compile(scale_kernel, {"x": "*i32", "out": "*i32"}, {"BLOCK": 4})
    kernel.launch((1, 1, 1), stream, source, target)


@pytest.fixture
def counter(cuda):
    """Put four zeros in device memory, and load the kernels."""
    address = cuda.put(np.zeros(4, np.int32))
    add(cuda, address, 0)
    scale(cuda, address, address, 0)
    cuda.driver.memset(address, 0, 16, 0)
    cuda.driver.synchronize()
    return address


@pytest.fixture
def stream(cuda):
    return cuda.driver.create_stream(0)


@pytest.fixture(autouse=True)
def nothing_is_left_capturing(cuda):
    yield
    left = list(cuda.driver.captures_underway)
    for stream in left:
        _caught(lambda: cuda.driver.end_capture(stream))  # noqa: B023 - called at once
    assert not left
    assert cuda.driver.exchange_capture_mode("global") == "global"


def values(cuda, address):
    return cuda.get(address, 4, np.int32).tolist()


def graph_of(cuda, stream, record, mode="global"):
    cuda.driver.begin_capture(stream, mode)
    record()
    graph = cuda.driver.end_capture(stream)
    executable = cuda.driver.instantiate_graph(graph)
    cuda.driver.destroy_graph(graph)
    return executable


def replay(cuda, executable, stream=0, times=1):
    for _ in range(times):
        cuda.driver.launch_graph(executable, stream)
    cuda.driver.synchronize_stream(stream)


def end_failed(cuda, stream, match="operation failed due to a previous error during capture"):
    assert cuda.driver.capture_status(stream) == "invalidated"
    with pytest.raises(RuntimeError, match=match):
        cuda.driver.end_capture(stream)
    assert cuda.driver.capture_status(stream) == "none"


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_captured_work_runs_at_each_replay_and_never_before(cuda, counter, stream, mode):
    executable = graph_of(
        cuda, stream, lambda: [add(cuda, counter, stream), add(cuda, counter, stream, 2)], mode
    )
    cuda.driver.synchronize()
    assert values(cuda, counter) == [0] * 4
    replay(cuda, executable, times=3)
    assert values(cuda, counter) == [9] * 4
    replay(cuda, executable, stream)
    assert values(cuda, counter) == [12] * 4
    cuda.driver.destroy_executable(executable)


def test_copies_and_memsets_are_captured(cuda, counter, stream):
    host, other = np.full(4, 7, np.int32), cuda.empty(16)

    def record():
        cuda.driver.copy_host_to_device(counter, host, stream)
        cuda.driver.copy_device_to_device(other, counter, 16, stream)
        cuda.driver.memset(counter, 0, 16, stream)

    executable = graph_of(cuda, stream, record)
    replay(cuda, executable)
    assert values(cuda, other) == [7] * 4
    assert values(cuda, counter) == [0] * 4


@pytest.mark.interpreter
def test_a_graph_keeps_the_host_arrays_of_its_copies(cuda, counter, stream):
    executable = graph_of(
        cuda, stream, lambda: cuda.driver.copy_host_to_device(counter, np.full(4, 9, np.int32), stream)
    )
    np.zeros(1000)
    replay(cuda, executable)
    assert values(cuda, counter) == [9] * 4


def test_arguments_are_those_of_the_capture_and_memory_that_of_the_replay(cuda, counter, stream):
    value = 5
    executable = graph_of(cuda, stream, lambda: add(cuda, counter, stream, value))
    value = 100
    cuda.driver.copy_host_to_device(counter, np.arange(4, dtype=np.int32), 0)
    replay(cuda, executable)
    assert values(cuda, counter) == [5, 6, 7, 8]


def test_launches_count_kernels_of_replays(cuda, counter, stream):
    executable = graph_of(
        cuda, stream, lambda: [add(cuda, counter, stream), cuda.driver.memset(counter, 0, 16, stream)]
    )
    before = cuda.driver.launches
    replay(cuda, executable, times=3)
    assert cuda.driver.launches == before + 3


def test_a_graph_launched_in_a_capture_becomes_part_of_it(cuda, counter, stream):
    inner = graph_of(cuda, stream, lambda: add(cuda, counter, stream))
    outer = graph_of(cuda, stream, lambda: [cuda.driver.launch_graph(inner, stream) for _ in range(2)])
    assert values(cuda, counter) == [0] * 4
    replay(cuda, outer, times=2)
    assert values(cuda, counter) == [4] * 4


def test_replays_of_one_graph_on_two_streams_are_in_order(cuda, counter, stream):
    other = cuda.driver.create_stream(0)
    target = cuda.put(np.zeros(4, np.int32))
    executable = graph_of(
        cuda, stream, lambda: [add(cuda, counter, stream), scale(cuda, counter, target, stream)]
    )
    cuda.driver.launch_graph(executable, stream)
    cuda.driver.launch_graph(executable, other)
    cuda.driver.synchronize_stream(other)
    assert values(cuda, counter) == [2] * 4, "the second launch waits for the first, on another stream"
    assert values(cuda, target) == [20] * 4


class TestForkAndJoin:
    def fork(self, cuda, origin):
        side, event = cuda.driver.create_stream(0), cuda.driver.create_event()
        cuda.driver.record_event(event, origin)
        cuda.driver.wait_event(side, event)
        return side

    def join(self, cuda, side, origin):
        event = cuda.driver.create_event()
        cuda.driver.record_event(event, side)
        cuda.driver.wait_event(origin, event)

    def test_work_of_a_joined_stream_is_captured(self, cuda, counter, stream):
        target = cuda.put(np.zeros(4, np.int32))

        def record():
            add(cuda, counter, stream)
            side = self.fork(cuda, stream)
            assert cuda.driver.capture_status(side) == "active"
            assert cuda.driver.capture_id(side) == cuda.driver.capture_id(stream) != 0
            scale(cuda, counter, target, side)
            self.join(cuda, side, stream)
            add(cuda, counter, stream)

        executable = graph_of(cuda, stream, record)
        assert values(cuda, target) == [0] * 4
        replay(cuda, executable)
        assert values(cuda, target) == [10] * 4, (
            "the fork comes after the first addition, the join before the second"
        )
        assert values(cuda, counter) == [2] * 4
        replay(cuda, executable)
        assert values(cuda, target) == [30] * 4

    def test_streams_take_no_part_after_the_end(self, cuda, counter, stream):
        sides = []

        def record():
            sides.append(self.fork(cuda, stream))
            add(cuda, counter, sides[0])
            self.join(cuda, sides[0], stream)

        graph_of(cuda, stream, record)
        add(cuda, counter, sides[0])
        cuda.driver.synchronize()
        assert values(cuda, counter) == [1] * 4

    @pytest.mark.interpreter
    def test_a_missing_dependency_shows(self, cuda, counter, stream):
        """Leave out a dependency: both streams may go first, and the simulation runs the last captured work
        first.
        """
        target = cuda.put(np.zeros(4, np.int32))

        def record():
            side = self.fork(cuda, stream)
            add(cuda, counter, side)
            scale(cuda, counter, target, stream)
            self.join(cuda, side, stream)

        replay(cuda, graph_of(cuda, stream, record))
        assert values(cuda, target) == [0] * 4

    def test_unjoined_work_is_refused(self, cuda, counter, stream):
        cuda.driver.begin_capture(stream)
        side = self.fork(cuda, stream)
        add(cuda, counter, side)
        with pytest.raises(RuntimeError, match="capturing stream has unjoined work"):
            cuda.driver.end_capture(stream)
        assert not cuda.driver.is_capturing(stream)
        assert not cuda.driver.is_capturing(side)
        add(cuda, counter, side)
        cuda.driver.synchronize()
        assert values(cuda, counter) == [1] * 4

    def test_a_fork_without_work_needs_no_join(self, cuda, counter, stream):
        cuda.driver.begin_capture(stream)
        add(cuda, counter, stream)
        self.fork(cuda, stream)
        cuda.driver.destroy_graph(cuda.driver.end_capture(stream))

    def test_the_default_stream_cannot_join(self, cuda, stream):
        event = cuda.driver.create_event()
        cuda.driver.begin_capture(stream)
        cuda.driver.record_event(event, stream)
        with pytest.raises(RuntimeError, match="legacy stream"):
            cuda.driver.wait_event(0, event)
        end_failed(cuda, stream)

    def test_a_capture_does_not_wait_for_work_outside(self, cuda, counter, stream):
        event = cuda.driver.create_event()
        cuda.driver.record_event(event, 0)
        cuda.driver.begin_capture(stream)
        with pytest.raises(RuntimeError, match="dependency created on uncaptured work in another stream"):
            cuda.driver.wait_event(stream, event)
        end_failed(cuda, stream)

    def test_two_captures_do_not_merge(self, cuda, counter, stream):
        other, event = cuda.driver.create_stream(0), cuda.driver.create_event()
        cuda.driver.begin_capture(stream)
        cuda.driver.begin_capture(other)
        assert cuda.driver.capture_id(stream) != cuda.driver.capture_id(other)
        cuda.driver.record_event(event, other)
        with pytest.raises(RuntimeError, match="merge of separate capture sequences"):
            cuda.driver.wait_event(stream, event)
        end_failed(cuda, stream)
        end_failed(cuda, other)

    def test_a_capture_ends_where_it_began(self, cuda, stream):
        cuda.driver.begin_capture(stream)
        side = self.fork(cuda, stream)
        with pytest.raises(RuntimeError, match="capture was not initiated in this stream"):
            cuda.driver.end_capture(side)
        end_failed(cuda, stream)


FORBIDDEN = {
    "wait for the stream": lambda driver, stream, event: driver.synchronize_stream(stream),
    "query the stream": lambda driver, stream, event: driver.query_stream(stream),
    "wait for the device": lambda driver, stream, event: driver.synchronize(),
    "take memory": lambda driver, stream, event: driver.malloc(0, 512),
    "take page-locked memory": lambda driver, stream, event: driver.malloc_host(512),
    "query an event": lambda driver, stream, event: driver.query_event(event),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_is_forbidden_invalidates_the_capture(cuda, counter, stream, what):
    event = cuda.driver.create_event()
    cuda.driver.begin_capture(stream)
    add(cuda, counter, stream)
    with pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"):
        FORBIDDEN[what](cuda.driver, stream, event)
    with pytest.raises(RuntimeError, match="previous error during capture"):
        add(cuda, counter, stream)
    end_failed(cuda, stream)
    add(cuda, counter, stream)
    cuda.driver.synchronize()
    assert values(cuda, counter) == [1] * 4
    replay(cuda, graph_of(cuda, stream, lambda: add(cuda, counter, stream)))
    assert values(cuda, counter) == [2] * 4


def test_memory_is_not_given_back_during_a_capture(cuda, stream):
    address = cuda.driver.malloc(0, 512)
    cuda.driver.begin_capture(stream)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        cuda.driver.free(0, address)
    end_failed(cuda, stream)
    cuda.driver.free(0, address)


def test_a_copy_to_the_host_waits_and_is_refused(cuda, counter, stream):
    cuda.driver.begin_capture(stream)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        cuda.driver.copy_device_to_host(np.zeros(4, np.int32), counter, stream)
    end_failed(cuda, stream)


@pytest.mark.parametrize("ask", ["query_event", "synchronize_event"])
def test_a_captured_event_answers_nobody_outside(cuda, counter, stream, ask):
    event = cuda.driver.create_event()
    cuda.driver.begin_capture(stream, "relaxed")
    cuda.driver.record_event(event, stream)
    with pytest.raises(RuntimeError, match="event last recorded in a capturing stream"):
        getattr(cuda.driver, ask)(event)
    end_failed(cuda, stream)
    cuda.driver.record_event(event, 0)
    cuda.driver.synchronize_event(event)
    assert cuda.driver.query_event(event)


@pytest.mark.interpreter
def test_a_captured_event_has_no_time(cuda, stream):
    start, end = (cuda.driver.create_event(timing=True) for _ in range(2))
    cuda.driver.record_event(start, 0)
    cuda.driver.begin_capture(stream)
    cuda.driver.record_event(end, stream)
    with pytest.raises(RuntimeError, match="event last recorded in a capturing stream"):
        cuda.driver.elapsed(start, end)
    end_failed(cuda, stream)


def test_the_default_stream_cannot_be_captured(cuda):
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        cuda.driver.begin_capture(0)


def test_a_stream_is_captured_once_at_a_time(cuda, stream):
    cuda.driver.begin_capture(stream)
    with pytest.raises(RuntimeError):
        cuda.driver.begin_capture(stream)
    cuda.driver.destroy_graph(cuda.driver.end_capture(stream))
    with pytest.raises(RuntimeError, match="cannot be performed in the present state"):
        cuda.driver.end_capture(stream)


def test_an_unknown_mode_is_refused(cuda, stream):
    with pytest.raises(RuntimeError, match=r"Unknown capture error mode\. Expected .*, got strict"):
        cuda.driver.begin_capture(stream, "strict")


def test_the_default_stream_goes_on_while_another_is_captured(cuda, counter, stream):
    cuda.driver.begin_capture(stream)
    add(cuda, counter, 0)
    assert values(cuda, counter) == [1] * 4
    cuda.driver.destroy_graph(cuda.driver.end_capture(stream))


def in_thread(work):
    raised = []

    def run():
        try:
            work()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize(
    ("mode", "who", "is_refused"),
    [
        ("global", "own", True),
        ("global", "other", True),
        ("thread_local", "own", True),
        ("thread_local", "other", False),
        ("relaxed", "own", False),
        ("relaxed", "other", False),
    ],
)
def test_the_mode_says_whose_unsafe_calls_are_errors(cuda, stream, mode, who, is_refused):
    run = {"own": _caught, "other": in_thread}[who]
    taken = []
    cuda.driver.begin_capture(stream, mode)
    raised = run(lambda: taken.append(cuda.driver.malloc(0, 512)))
    assert len(raised) == is_refused
    if is_refused:
        end_failed(cuda, stream)
    else:
        cuda.driver.destroy_graph(cuda.driver.end_capture(stream))
        cuda.driver.free(0, taken[0])


def _caught(work):
    try:
        work()
    except RuntimeError as error:
        return [error]
    return []


def test_a_thread_may_say_that_its_calls_are_safe(cuda, stream):
    cuda.driver.begin_capture(stream)
    with relaxed_capture(cuda.driver):
        address = cuda.driver.malloc(0, 512)
        with relaxed_capture(cuda.driver):
            pass
        assert not cuda.driver.unsafe_calls_prohibited()
    assert cuda.driver.unsafe_calls_prohibited()
    cuda.driver.destroy_graph(cuda.driver.end_capture(stream))
    cuda.driver.free(0, address)


def test_another_thread_ends_only_a_relaxed_capture(cuda, stream):
    cuda.driver.begin_capture(stream)
    raised = in_thread(lambda: cuda.driver.end_capture(stream))
    assert "from another thread" in str(raised[0])
    cuda.driver.destroy_graph(cuda.driver.end_capture(stream))
    cuda.driver.begin_capture(stream, "relaxed")
    assert not in_thread(lambda: cuda.driver.destroy_graph(cuda.driver.end_capture(stream)))


def test_a_kernel_is_loaded_before_the_capture(cuda, counter, stream):
    cuda.driver.begin_capture(stream)
    with pytest.raises(RuntimeError, match=r"not permitted.*'fresh_kernel' is not loaded yet.*warm-up"):
        cuda.driver.compile(fresh_kernel, {"x": "*i32"}, {})
    assert cuda.driver.capture_status(stream) == "active", "it is refused before it can do harm"
    add(cuda, counter, stream)
    graph = cuda.driver.end_capture(stream)
    replay(cuda, cuda.driver.instantiate_graph(graph))
    assert values(cuda, counter) == [1] * 4
    cuda.driver.compile(fresh_kernel, {"x": "*i32"}, {}).launch((1, 1, 1), 0, counter)
    assert values(cuda, counter)[0] == 1


@pytest.mark.interpreter
def test_a_failing_replay_leaves_a_usable_device(cuda, counter, stream):
    executable = graph_of(cuda, stream, lambda: [add(cuda, 0x1000, stream), add(cuda, counter, stream)])
    with pytest.raises(RuntimeError, match="illegal memory access"):
        replay(cuda, executable)
    add(cuda, counter, 0)
    assert values(cuda, counter) == [1] * 4


@pytest.mark.interpreter
def test_unknown_graphs_are_refused(cuda, stream):
    for call in (
        lambda: cuda.driver.launch_graph(12345, stream),
        lambda: cuda.driver.destroy_executable(12345),
        lambda: cuda.driver.destroy_graph(12345),
        lambda: cuda.driver.instantiate_graph(12345),
    ):
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            call()


def test_a_graph_is_printed_as_dot(cuda, counter, stream, tmp_path):
    cuda.driver.begin_capture(stream)
    add(cuda, counter, stream)
    cuda.driver.memset(counter, 0, 16, stream)
    graph = cuda.driver.end_capture(stream)
    cuda.driver.print_graph(graph, str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph")
    assert "add_kernel" in text
    assert text.count("->") == 1
    cuda.driver.destroy_graph(graph)
