"""Random numbers within graphs go on where the generator stands."""

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.cuda_graph.capture import captured
from triten.tests.shared.threads import in_thread


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
