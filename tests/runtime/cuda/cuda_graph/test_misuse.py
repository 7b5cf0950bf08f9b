"""Captures that fail or are refused leave everything as it was."""

import threading

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.cuda_graph.capture import captured, cuda
from triten.tests.shared.threads import in_thread


class TestFaults:
    """Faults in inputs: a replay reports a fault as a launch does, and the next wait raises it."""

    def test_a_wrong_target_is_reported_where_a_result_is_read(self):
        x, target = tt.zeros(2, 3, device="cuda"), cuda(0, 1)
        graph, loss = captured(lambda: F.nll_loss(x, target))
        target.fill_(3)
        graph.replay()
        with pytest.raises(IndexError, match=r"nll_loss.*\(\): target out of bounds for 3 classes"):
            loss.item()
        target.fill_(2)
        graph.replay()
        assert loss.item() == 0.0

    @pytest.mark.parametrize(
        ("work", "message"),
        [
            (lambda x, i: x[i], "out of bounds for dimension 0 with size 4"),
            (lambda x, i: x.index_select(0, i), "out of"),
            (lambda x, i: x.gather(0, i), "out of bounds"),
            (lambda x, i: tt.zeros(4, device="cuda").index_add(0, i, tt.ones(2, device="cuda")), "out of"),
        ],
        ids=["index", "index_select", "gather", "index_add"],
    )
    def test_a_wrong_index_is_reported_by_synchronize(self, work, message):
        x, i = cuda(1.0, 2.0, 3.0, 4.0), cuda(1, 2)
        graph, y = captured(lambda: work(x, i))
        expected = y.shape
        i.fill_(4)
        graph.replay()
        i.fill_(1)
        graph.replay()
        with pytest.raises((IndexError, RuntimeError), match=message):
            tt.cuda.synchronize()
        tt.cuda.synchronize()
        graph.replay()
        tt.cuda.synchronize()
        assert y.shape == expected

    def test_probabilities_are_checked(self):
        p = cuda(0.5, 0.5)
        graph, y = captured(lambda: tt.bernoulli(p))
        p.fill_(2.0)
        graph.replay()
        with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
            y.tolist()

    def test_who_waits_for_another_stream_may_hear_of_it_once(self):
        x, i, stream = cuda(1.0, 2.0), cuda(0, 1), tt.cuda.Stream()
        graph, _ = captured(lambda: x[i])
        i.fill_(2)
        graph.replay()
        with tt.cuda.stream(stream):
            stream.wait_stream(tt.cuda.default_stream())
            with pytest.raises(IndexError):
                x.tolist()
            assert x.tolist() == [1.0, 2.0]
        tt.cuda.current_stream().synchronize()
        tt.cuda.synchronize()

    def test_a_capture_raises_no_error_of_work_before_it(self):
        x, i = cuda(1.0, 2.0), cuda(5)
        captured(lambda: x[i])
        stream = tt.cuda.Stream()
        stream.wait_stream(tt.cuda.current_stream())
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.stream(stream):
            graph.capture_begin()
            y = x[i]
            graph.capture_end()
        with pytest.raises(IndexError):
            tt.cuda.synchronize()
        i.fill_(1)
        graph.replay()
        assert y.tolist() == [2.0]

    def test_a_captured_check_does_not_wait_under_launch_blocking(self, launch_blocking):
        x, i = cuda(1.0, 2.0), cuda(0)
        graph, y = captured(lambda: x[i])
        i.fill_(1)
        graph.replay()
        assert y.tolist() == [2.0]

    def test_a_graph_whose_words_another_one_replays_may_be_dropped(self):
        x, i = cuda(1.0, 2.0), cuda(0)
        inner, y = captured(lambda: x[i])
        outer, _ = captured(inner.replay)
        i.fill_(7)
        outer.replay()
        with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
            tt.cuda.synchronize()
        assert y.shape == (1,)


READS = {
    "item": lambda x: x.item(),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "print": lambda x: repr(x),
    "bool": lambda x: bool(x),
    "nonzero": lambda x: x.nonzero(),
}


class TestMisuse:
    @pytest.mark.parametrize("read", READS)
    def test_reading_values_on_the_host_is_refused(self, read):
        x = cuda(1.0)
        READS[read](x)
        with (
            pytest.raises(RuntimeError, match=r"not permitted when stream is capturing.*host cannot read"),
            tt.cuda.graph(tt.cuda.CUDAGraph()),
        ):
            READS[read](x)
        assert READS[read](x) is not None

    def test_copies_that_wait_are_refused(self):
        x = cuda(0.0)
        pinned = tt.tensor([1.0]).pin_memory()
        for copy in (
            lambda: x.copy_(tt.tensor([1.0])),
            lambda: x.copy_(tt.tensor([1.0]), non_blocking=True),
            lambda: x.copy_(pinned),
            lambda: tt.tensor([1.0], device="cuda"),
        ):
            with (
                pytest.raises(
                    RuntimeError, match="Cannot copy between CPU and CUDA tensors during CUDA graph capture"
                ),
                tt.cuda.graph(tt.cuda.CUDAGraph()),
            ):
                copy()
        assert x.item() == 0.0

    def test_a_refusal_that_is_caught_leaves_the_capture_valid(self):
        x = cuda(1.0)
        x + 1
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.graph(graph):
            with pytest.raises(RuntimeError):
                x.item()
            y = x + 1
        graph.replay()
        assert y.item() == 2.0

    def test_waiting_inside_is_refused(self):
        for wait in (tt.cuda.synchronize, lambda: tt.cuda.current_stream().synchronize()):
            with pytest.raises(RuntimeError, match="not permitted"), tt.cuda.graph(tt.cuda.CUDAGraph()):
                wait()

    def test_a_caught_error_that_broke_the_capture_is_raised_at_its_end(self):
        graph = tt.cuda.CUDAGraph()
        with (
            pytest.raises(RuntimeError, match="previous error during capture"),
            tt.cuda.graph(graph),
            pytest.raises(RuntimeError, match="not permitted"),
        ):
            tt.cuda.synchronize()
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            graph.replay()
        with tt.cuda.graph(graph):
            pass
        graph.replay()

    def test_work_that_never_ran_is_refused(self):
        x = tt.ones(3, 5, 7, device="cuda", dtype=tt.float16)
        with (
            pytest.raises(RuntimeError, match=r"is not loaded yet.*warm-up"),
            tt.cuda.graph(tt.cuda.CUDAGraph()),
        ):
            x.transpose(0, 2).sigmoid().cumsum(1)
        assert x.sum().item() == 105

    def test_the_default_stream_is_refused(self):
        with pytest.raises(RuntimeError, match="CUDA graphs must be captured on a non-default stream"):
            tt.cuda.CUDAGraph().capture_begin()
        with (
            pytest.raises(RuntimeError, match="non-default stream"),
            tt.cuda.graph(tt.cuda.CUDAGraph(), stream=tt.cuda.default_stream()),
        ):
            pass

    def test_a_graph_holds_one_capture(self):
        graph, _ = captured(lambda: None)
        with pytest.raises(RuntimeError, match="already owns a captured graph"), tt.cuda.graph(graph):
            pass

    def test_a_capture_ends_on_its_stream(self):
        graph, one, two = tt.cuda.CUDAGraph(), tt.cuda.Stream(), tt.cuda.Stream()
        with tt.cuda.stream(one):
            graph.capture_begin()
            with tt.cuda.stream(two), pytest.raises(RuntimeError, match="same stream it began on"):
                graph.capture_end()
            with pytest.raises(RuntimeError, match="a capture is underway"):
                graph.reset()
            graph.capture_end()
        graph.replay()

    def test_calls_without_a_capture(self):
        graph = tt.cuda.CUDAGraph()
        for call, name in (
            (graph.replay, "replay"),
            (graph.pool, "pool"),
            (graph.capture_end, "capture_end"),
        ):
            with pytest.raises(RuntimeError, match=f"Called CUDAGraph::{name}.*without a preceding"):
                call()
        graph.reset()

    def test_arguments_are_checked(self):
        with pytest.raises(TypeError, match="must be CUDAGraph, not str"):
            tt.cuda.graph("graph")
        with pytest.raises(TypeError, match="must be Stream, not int"):
            tt.cuda.graph(tt.cuda.CUDAGraph(), stream=3)
        with pytest.raises(TypeError, match="pool must be of graph_pool_handle"):
            tt.cuda.graph(tt.cuda.CUDAGraph(), pool="mine")
        with pytest.raises(RuntimeError, match="Unknown capture error mode"):
            tt.cuda.graph(tt.cuda.CUDAGraph(), capture_error_mode="strict")
        with pytest.raises(RuntimeError, match="expected a generator of a cuda device"):
            tt.cuda.CUDAGraph().register_generator_state(tt.Generator())

    def test_an_exception_in_the_block_goes_on(self):
        graph, x = tt.cuda.CUDAGraph(), cuda(1.0)
        x + 1
        with pytest.raises(KeyError, match="mine"), tt.cuda.graph(graph):
            x + 1
            raise KeyError("mine")
        with tt.cuda.graph(graph):
            y = x + 1
        graph.replay()
        assert y.item() == 2.0

    def test_captures_do_not_nest(self):
        x = cuda(1.0)
        x + 1
        graph, inner = tt.cuda.CUDAGraph(), tt.cuda.CUDAGraph()
        stream = tt.cuda.Stream()
        with tt.cuda.graph(graph, stream=stream):
            with pytest.raises(RuntimeError, match="present state"), tt.cuda.graph(inner, stream=stream):
                pass
            y = x + 1
        graph.replay()
        assert y.item() == 2.0


class TestThreads:
    def test_another_thread_works_on_while_this_one_captures(self):
        x = cuda(1.0)
        x + 1
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.graph(graph, capture_error_mode="thread_local"):
            y = x + 1
            assert in_thread(lambda: (x + 1).item()) == 2.0
            z = y + 1
        graph.replay()
        assert z.item() == 3.0

    def test_a_graph_captured_in_one_thread_is_replayed_in_another(self):
        x = cuda(1.0)
        graph, y = captured(lambda: x * 5)

        def work():
            graph.replay()
            return y.item()

        assert in_thread(work) == 5.0

    def test_captures_of_several_threads(self):
        inputs = [cuda(float(i)) for i in range(4)]
        for x in inputs:
            x * 2 + 1
        barrier = threading.Barrier(4)

        def work(x):
            graph = tt.cuda.CUDAGraph()
            stream = tt.cuda.Stream()
            barrier.wait()
            with tt.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="relaxed")
                barrier.wait()
                y = x * 2 + 1
                graph.capture_end()
                graph.replay()
                return y.item()

        found = [None] * 4
        threads = [
            threading.Thread(target=lambda i=i: found.__setitem__(i, work(inputs[i]))) for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1.0, 3.0, 5.0, 7.0]


def test_a_kept_graph_can_be_looked_at(tmp_path):
    x = cuda(1.0)
    x + 1
    graph = tt.cuda.CUDAGraph(keep_graph=True)
    with tt.cuda.graph(graph):
        y = x + 1
    assert graph.raw_cuda_graph() > 0
    with pytest.raises(RuntimeError, match="instantiate"):
        graph.raw_cuda_graph_exec()
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    graph.replay()
    assert graph.raw_cuda_graph_exec() > 0
    assert y.item() == 2.0
    graph.instantiate()
    graph.replay()
    assert y.item() == 2.0


def test_a_graph_in_debug_mode_can_be_dumped(tmp_path):
    graph = tt.cuda.CUDAGraph()
    graph.enable_debug_mode()
    with tt.cuda.graph(graph):
        pass
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").exists()
    with pytest.raises(RuntimeError, match="keep_graph=true"):
        graph.raw_cuda_graph()
    other, _ = captured(lambda: None)
    with pytest.warns(UserWarning, match="debug not enabled"):
        other.debug_dump(str(tmp_path / "other.dot"))
