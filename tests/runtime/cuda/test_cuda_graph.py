"""CUDAGraph: replays give what eager execution gives; memory, random numbers, faults and misuse."""

import gc
import threading

import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.cuda.driver import driver


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    assert not driver().captures_underway
    assert not tt.cuda.is_current_stream_capturing()
    assert tt.cuda.current_stream() == tt.cuda.default_stream()


def captured(work, **options):
    """A graph of `work`, which ran once before, and what the captured call returned."""
    work()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph, **options):
        result = work()
    return graph, result


def cuda(*values):
    return tt.tensor(values, device="cuda")


def in_thread(work):
    outcome = []

    def run():
        try:
            outcome.append(work())
        except (RuntimeError, IndexError) as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


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
        def work():
            x = tt.empty(3, device="cuda")
            return x, x * 2

        graph, (x, y) = captured(work)
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


class TestRandomNumbers:
    def draws(self):
        x = tt.ones(5, device="cuda")
        return tt.cat([tt.rand(5, device="cuda"), F.dropout(x, 0.5), tt.randn(3, device="cuda")])

    def test_replays_give_the_very_sequence_of_eager_execution(self):
        tt.manual_seed(7)
        eager = [self.draws().tolist() for _ in range(4)] + [tt.rand(2, device="cuda").tolist()]
        graph, y = captured(self.draws)
        tt.manual_seed(7)
        found = []
        for _ in range(4):
            graph.replay()
            found.append(y.tolist())
        found.append(tt.rand(2, device="cuda").tolist())
        assert found == eager

    def test_eager_draws_between_replays_take_their_turn(self):
        tt.manual_seed(7)
        eager = [self.draws().tolist() for _ in range(3)]
        graph, y = captured(self.draws)
        tt.manual_seed(7)
        found = [self.draws().tolist()]
        graph.replay()
        found.append(y.tolist())
        found.append(self.draws().tolist())
        assert found == eager

    def test_a_capture_takes_nothing_from_the_generator(self):
        tt.manual_seed(7)
        first = tt.rand(3, device="cuda")
        tt.manual_seed(7)
        with tt.cuda.graph(tt.cuda.CUDAGraph()):
            tt.rand(3, device="cuda")
        assert tt.rand(3, device="cuda").tolist() == first.tolist()

    @pytest.mark.parametrize(
        "draw",
        [
            lambda x: tt.randperm(50, device="cuda"),
            lambda x: tt.randperm(3000, device="cuda"),
            lambda x: tt.randint(0, 100, (9,), device="cuda"),
            lambda x: tt.bernoulli(x.repeat(10)),
            lambda x: tt.empty(4, dtype=tt.float64, device="cuda").normal_(),
            lambda x: tt.multinomial(x, 3),
            lambda x: tt.multinomial(x, 20, replacement=True),
            lambda x: tt.empty(9, device="cuda").exponential_(),
            lambda x: tt.normal(x, x),
        ],
        ids=[
            "randperm",
            "long-randperm",
            "randint",
            "bernoulli",
            "normal64",
            "multinomial",
            "replacement",
            "exponential",
            "normal-tensors",
        ],
    )
    def test_every_way_to_draw(self, draw):
        x = tt.tensor([0.1, 0.2, 0.3, 0.4], device="cuda")
        graph, y = captured(lambda: draw(x))
        tt.manual_seed(1)
        eager = [draw(x).tolist() for _ in range(2)]
        assert eager[0] != eager[1]
        tt.manual_seed(1)
        for expected in eager:
            graph.replay()
            assert y.tolist() == expected

    def test_a_registered_generator(self):
        generator = tt.Generator("cuda").manual_seed(5)
        tt.rand(4, device="cuda", generator=generator)
        eager = [tt.rand(4, device="cuda", generator=generator).tolist() for _ in range(2)]
        generator.manual_seed(5)
        tt.rand(4, device="cuda", generator=generator)
        graph = tt.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with tt.cuda.graph(graph):
            y = tt.rand(4, device="cuda", generator=generator)
        found = []
        for _ in range(2):
            graph.replay()
            found.append(y.tolist())
        assert found == eager

    def test_an_unknown_generator_is_refused(self):
        generator = tt.Generator("cuda")
        tt.rand(4, device="cuda", generator=generator)
        with (
            pytest.raises(RuntimeError, match="generator not in capture mode"),
            tt.cuda.graph(tt.cuda.CUDAGraph()),
        ):
            tt.rand(4, device="cuda", generator=generator)

    def test_seeding_inside_is_refused(self):
        for change in (lambda: tt.manual_seed(3), lambda: tt.cuda.manual_seed(3)):
            with (
                pytest.raises(RuntimeError, match="manual_seed during CUDA graph capture"),
                tt.cuda.graph(tt.cuda.CUDAGraph()),
            ):
                change()

    def test_a_host_generator_is_no_part_of_a_capture(self):
        generator = tt.Generator().manual_seed(1)
        expected = tt.rand(3, generator=tt.Generator().manual_seed(1)).tolist()
        with tt.cuda.graph(tt.cuda.CUDAGraph()):
            assert tt.rand(3, generator=generator).tolist() == expected

    def test_another_thread_draws_eagerly_meanwhile(self):
        tt.manual_seed(2)
        expected = tt.rand(3, device="cuda").tolist()
        tt.manual_seed(2)
        with tt.cuda.graph(tt.cuda.CUDAGraph()):
            found = in_thread(lambda: tt.rand(3, device="cuda").tolist())
        assert found == expected

    def test_replays_on_two_streams_draw_one_after_the_other(self):
        x = tt.ones(8, device="cuda")
        graph, y = captured(lambda: F.dropout(x, 0.5))
        tt.manual_seed(4)
        eager = [F.dropout(x, 0.5).tolist() for _ in range(2)]
        tt.manual_seed(4)
        stream = tt.cuda.Stream()
        graph.replay()
        kept = y.clone()
        stream.wait_stream(tt.cuda.current_stream())
        with tt.cuda.stream(stream):
            graph.replay()
        tt.cuda.current_stream().wait_stream(stream)
        assert [kept.tolist(), y.tolist()] == eager


class TestFaults:
    """Inputs that kernels check: the host cannot wait in a capture, so it learns of a fault when it waits later."""

    def test_a_wrong_target_is_reported_where_a_result_is_read(self):
        x, target = tt.zeros(2, 3, device="cuda"), cuda(0, 1)
        graph, loss = captured(lambda: F.nll_loss(x, target))
        target.fill_(3)
        graph.replay()
        with pytest.raises(IndexError, match=r"Target of a replayed graph is out of bounds\."):
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

    def test_other_streams_do_not_ask(self):
        x, i, stream = cuda(1.0, 2.0), cuda(0, 1), tt.cuda.Stream()
        graph, _ = captured(lambda: x[i])
        i.fill_(2)
        graph.replay()
        with tt.cuda.stream(stream):
            stream.wait_stream(tt.cuda.default_stream())
            assert x.tolist() == [1.0, 2.0]
        with pytest.raises(IndexError):
            tt.cuda.current_stream().synchronize()
        tt.cuda.synchronize()

    def test_eager_errors_tell_the_index_as_ever(self):
        with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 2"):
            cuda(1.0, 2.0)[cuda(5)]


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
