"""Graphs replay what was captured, over memory of their own."""

import gc

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.cuda_graph.capture import captured, cuda
from triten.tests.shared.threads import in_thread


class TestReplay:
    def test_a_replay_reads_what_stands_in_its_inputs_then(self):
        x = cuda(1.0, 2.0)
        graph, y = captured(lambda: x * 2 + 1)
        for values in ([3.0, 4.0], [-1.0, 0.5]):
            x.copy_(tt.tensor(values))
            graph.replay()
            assert y.tolist() == [2 * v + 1 for v in values]

    def test_work_in_the_block_does_not_run(self):
        x = cuda(1.0)
        y = x + 0
        graph = tt.cuda.CUDAGraph()
        y.add_(x)
        with tt.cuda.graph(graph):
            y.add_(x)
        assert y.item() == 2.0
        graph.replay()
        graph.replay()
        assert y.item() == 4.0

    def test_the_block_says_that_it_is_captured(self):
        seen = []
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.graph(graph):
            seen += [tt.cuda.is_current_stream_capturing(), in_thread(tt.cuda.is_current_stream_capturing)]
            side = tt.cuda.current_stream()
        assert seen == [True, False]
        assert side != tt.cuda.default_stream()

    def test_a_stream_of_the_users(self):
        stream, x = tt.cuda.Stream(), cuda(1.0)
        graph, _ = captured(lambda: x.add_(1), stream=stream)
        graph.replay()
        assert x.item() == 3.0

    def test_replays_on_another_stream(self):
        x, stream = cuda(1.0), tt.cuda.Stream()
        graph, y = captured(lambda: x * 3)
        stream.wait_stream(tt.cuda.current_stream())
        with tt.cuda.stream(stream):
            graph.replay()
        tt.cuda.current_stream().wait_stream(stream)
        assert y.item() == 3.0

    def test_streams_fork_and_join_inside(self):
        x, side = cuda(1.0, 2.0), tt.cuda.Stream()

        def work():
            a = x + 1
            side.wait_stream(tt.cuda.current_stream())
            with tt.cuda.stream(side):
                b = a * 10
            c = a * 100
            tt.cuda.current_stream().wait_stream(side)
            b.record_stream(tt.cuda.current_stream())
            return b + c

        graph, y = captured(work)
        x.copy_(tt.tensor([3.0, 4.0]))
        graph.replay()
        assert y.tolist() == [440.0, 550.0]

    def test_backward_inside(self):
        w, x = cuda(1.0, 2.0).requires_grad_(), cuda(3.0, 4.0)

        def work():
            w.grad = None
            (w * x).sum().backward()

        graph, _ = captured(work)
        x.copy_(tt.tensor([5.0, 6.0]))
        graph.replay()
        assert w.grad.tolist() == [5.0, 6.0]

    def test_a_page_locked_copy_inside(self):
        host, x = tt.tensor([1.0, 2.0]).pin_memory(), cuda(0.0, 0.0)
        graph, y = captured(lambda host=host: x.copy_(host, non_blocking=True) * 2)
        host[0] = 7.0
        graph.replay()
        assert y.tolist() == [14.0, 4.0]
        del host
        gc.collect()
        pressure = [tt.zeros(2, pin_memory=True) for _ in range(8)]
        graph.replay()
        assert y.tolist() == [14.0, 4.0], "the graph keeps the memory that it copies from"
        del pressure

    def test_the_other_device(self):
        with tt.cuda.device(1):
            x = tt.ones(2, device="cuda")
            graph, y = captured(lambda: x + 1)
        assert y.device.index == 1
        x.fill_(5)
        tt.cuda.synchronize(1)
        graph.replay()
        assert tt.cuda.current_device() == 0
        assert y.tolist() == [6.0, 6.0]


class TestMemory:
    def test_tensors_of_the_capture_are_nobody_elses(self):
        x = tt.arange(1000.0, device="cuda")
        graph, y = captured(lambda: x * 2)
        graph.replay()
        others = [tt.full((1000,), -1.0, device="cuda") for _ in range(50)]
        assert y.tolist() == [2.0 * i for i in range(1000)]
        del others

    def test_memory_of_the_graph_is_not_reused_while_it_lives(self):
        x, stream = tt.arange(1000.0, device="cuda"), tt.cuda.Stream()
        graph, y = captured(lambda: ((x * 2) + 1) * 3, stream=stream)
        address = y.data_ptr()
        del y
        gc.collect()
        tt.cuda.empty_cache()
        with tt.cuda.stream(stream):
            others = [tt.full((1000,), -1.0, device="cuda") for _ in range(50)]
        tt.cuda.synchronize()
        assert address not in [other.data_ptr() for other in others]
        graph.replay()
        tt.cuda.synchronize()
        assert all(other.eq(-1).all().item() for other in others), "the replay wrote into its own memory only"

    def test_an_input_made_inside_keeps_what_is_put_there(self):
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.graph(graph):
            x = tt.empty(3, device="cuda")
            y = x * 2
        x.copy_(tt.tensor([1.0, 2.0, 3.0]))
        graph.replay()
        assert y.tolist() == [2.0, 4.0, 6.0]
        graph.replay()
        assert x.tolist() == [1.0, 2.0, 3.0]

    def test_results_stay_between_replays(self):
        x = cuda(1.0)
        graph, y = captured(lambda: x + 1)
        graph.replay()
        kept = y.clone()
        x.fill_(10)
        assert y.item() == 2.0
        graph.replay()
        assert (y.item(), kept.item()) == (11.0, 2.0)

    @pytest.mark.interpreter
    def test_an_input_that_is_gone_is_noticed(self):
        x = tt.ones(100, device="cuda")
        graph, y = captured(lambda x=x: x * 2)
        del x
        gc.collect()
        graph.replay()
        with pytest.raises(RuntimeError, match="illegal memory access"):
            y.tolist()

    def test_graphs_share_a_pool(self):
        pool = tt.cuda.graph_pool_handle()
        x = tt.ones(100_000, device="cuda")
        one, a = captured(lambda: (x + 1) * 2, pool=pool)
        assert one.pool() == pool
        one.replay()  # what the second function is tried on
        before = tt.cuda.memory_reserved()
        two, b = captured(lambda: (a + 1) * 2, pool=one.pool())
        assert tt.cuda.memory_reserved() == before, "the second graph found what the first one dropped"
        x.fill_(3)
        one.replay()
        two.replay()
        assert (a[0].item(), b[0].item()) == (8.0, 18.0)

    def test_handles_are_different(self):
        handles = {tt.cuda.graph_pool_handle() for _ in range(3)}
        graphs = [captured(lambda: None)[0] for _ in range(2)]
        assert len(handles | {graph.pool() for graph in graphs}) == 5

    def used(self):
        gc.collect()
        tt.cuda.synchronize()
        tt.cuda.empty_cache()
        return tt.cuda.memory_allocated(), tt.cuda.memory_reserved()

    @pytest.mark.parametrize("first", ["graph", "tensors"])
    def test_memory_comes_back(self, first):
        before = self.used()
        x = tt.ones(300_000, device="cuda")
        graph, y = captured(lambda x=x: F.dropout(x * 2, 0.5))
        graph.replay()
        if first == "graph":
            del graph
            gc.collect()
            assert set(y.tolist()) == {0.0, 4.0}, "the tensors outlive the graph"
            assert (y + 1).sum().item() > 0
            del y
        else:
            del y
            gc.collect()
            graph.replay()
            tt.cuda.synchronize()
            del graph
        del x
        assert self.used() == before

    def test_reset_gives_memory_back_and_allows_another_capture(self):
        before = self.used()
        x = cuda(1.0)
        graph, y = captured(lambda x=x: x + 1)
        graph.reset()
        graph.reset()
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            graph.replay()
        with tt.cuda.graph(graph):
            z = x + 1
        graph.replay()
        assert z.item() == 2.0
        del graph, x, y, z
        assert self.used() == before

    def test_a_failed_capture_gives_memory_back(self):
        before = self.used()
        x = tt.ones(300_000, device="cuda")
        x + 1
        with pytest.raises(ZeroDivisionError), tt.cuda.graph(tt.cuda.CUDAGraph()):
            y = x + 1
            raise ZeroDivisionError
        assert (y.shape, y.fill_(3).sum().item()) == ((300_000,), 900_000.0), (
            "what it made is ordinary memory"
        )
        del x, y
        assert self.used() == before
