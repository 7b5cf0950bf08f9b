"""``mode="reduce-overhead"``: CUDA graph replays have eager's results, and overwrite no live tensor."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.compiler.cuda_graphs.graphed import ADDRESSES, CAPTURES, GraphedProgram
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.shared.comparison import close

nn = tt.nn
LARGE = (128, 256)
"""Sizes of a result that is not copied out of a capture's memory."""


def graphed(compiled: Any) -> list[GraphedProgram]:
    """Return the programs of a compiled function or module that CUDA graphs may capture."""
    optimized = vars(compiled).get("_compiled") or compiled._optimized
    return [g for same_look in optimized.compilations.values() for each in same_look for g in each.graphed]


def launched(call: Callable[[], Any]) -> tuple[list[str], int]:
    """Return the names of the kernels that the host launches in a call, and the number of CUDA graph
    launches.
    """
    seen: list[str] = []

    def observer(name: str, grid: Any, stream: int, launch: Callable[[], None]) -> None:
        seen.append(name)
        launch()

    cuda = driver()
    before, graphs = cuda.observe_launches(observer), cuda.graph_launches
    try:
        call()
    finally:
        cuda.observe_launches(before)
    return seen, cuda.graph_launches - graphs


def on(*sizes: int, seed: int = 0, grad: bool = False) -> tt.Tensor:
    return drawn(*sizes, device="cuda", seed=seed, grad=grad)


HELD = {"scale": tt.ones(1)}


def writes(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
    x.add_(y)
    return (x * y).sum(0)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "chain": lambda x, y: tt.relu((x + y) * 2),
    "reduction": lambda x, y: ((x - y).softmax(1), x.sum()),
    "view of an argument": lambda x, y: (x.t(), y[1:], x + 1),
    "results share memory": lambda x, y: (x @ y.t()).unbind(0),
    "an argument": lambda x, y: (y, x * 2, x),
    "one twice": lambda x, y: [x + y] * 2,
    "constants": lambda x, y: {"a": x * y, "b": 3, "c": None},
    "draws": lambda x, y: tt.nn.functional.dropout(x, 0.5) + tt.rand_like(y),
    "draws of a product": lambda x, y: tt.nn.functional.dropout(x @ y.t(), 0.5) + tt.rand_like(x @ y.t()),
    "writes": writes,
    "no elements": lambda x, y: (x[:0] * 2, x[2:2].sum(0), y + 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_have_eager_s_results(name: str) -> None:
    function = PROGRAMS[name]
    compiled = tt.compile(function, fullgraph=True, mode="reduce-overhead")
    for call in range(4):
        given, own = ([on(4, 3, seed=call), on(4, 3, seed=call + 9)] for _ in range(2))
        results, afters = [], []
        for run, args in ((function, given), (compiled, own)):
            tt.manual_seed(call)
            results.append(run(*args))
            afters.append(tt.rand(1, device="cuda"))
        same(results[1], results[0], f"{name}, call {call}")
        same(own, given, f"{name}, call {call}: arguments")
        same(afters[1], afters[0], f"{name}, call {call}: the next random number")
        versions = [x._version for x in own]
        assert versions == [x._version for x in given]
    (program,) = graphed(compiled)
    assert program.is_replayed and program.captures == 1


def test_a_replay_is_one_launch() -> None:
    compiled = tt.compile(PROGRAMS["reduction"], options={"triton.cudagraphs": True})
    x, y = on(4, 3), on(4, 3, seed=1)
    kernels, graphs = launched(lambda: compiled(x, y))
    assert len(kernels) >= 2 and graphs == 0
    compiled(on(4, 3), y)
    assert launched(lambda: compiled(x, y)) == ([], 1)
    x = on(4, 3, seed=2)
    assert launched(lambda: compiled(x, y)) == ([], 1)


def test_results_that_are_held_are_not_overwritten() -> None:
    function = PROGRAMS["chain"]
    compiled = tt.compile(function, mode="reduce-overhead")
    y = on(*LARGE)
    found, views, expected = [], [], []
    # Each has another address, whatever the allocator holds: a capture is valid only for its addresses.
    inputs = [on(1, 1, seed=call) for call in range(CAPTURES + 4)]
    for x in inputs:
        found.append(compiled(x, y))
        views.append(compiled(x, y)[3:].t())
        expected.append(function(x, y))
    for a, b, c in zip(found, views, expected, strict=True):
        same(a, c)
        same(b, c[3:].t())
    assert graphed(compiled)[0].captures == CAPTURES
    del found, views, a, b
    assert launched(lambda: compiled(x, y)) == ([], 1)


def test_a_result_that_is_bound_again_has_two_captures() -> None:
    compiled = tt.compile(PROGRAMS["chain"], mode="reduce-overhead")
    y = on(*LARGE)
    result = None
    for call in range(8):
        result = compiled(on(1, 1, seed=call), y)
    assert graphed(compiled)[0].captures == 2
    same(result, PROGRAMS["chain"](on(1, 1, seed=7), y))


def test_a_result_outlives_its_graph() -> None:
    compiled = tt.compile(PROGRAMS["chain"], mode="reduce-overhead")
    x, y = on(1, 1), on(*LARGE)
    for _ in range(3):
        result = compiled(x, y)
    tt.compiler.reset()
    gc.collect()
    others = [tt.full(LARGE, float(i), device="cuda") for i in range(4)]
    again = compiled(x, y + 1), compiled(x, y + 2), compiled(x, y + 3)
    same(result, PROGRAMS["chain"](x, y))
    del others, again


class Net(nn.Module):
    """Module of a training step: a buffer that is written, a random op, a weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = nn.functional.dropout(self.norm(self.first(x)).relu(), 0.3)
        return self.last(self.first(x) * x)


def pair(**options: Any) -> tuple[Any, Any]:
    """Return two equal modules on the device, the second compiled."""
    made = []
    for _ in range(2):
        tt.manual_seed(0)
        made.append(Net().cuda())
    return made[0], tt.compile(made[1], fullgraph=True, mode="reduce-overhead", **options)


def test_training_gives_eager_s_parameters() -> None:
    modules = pair()
    last = None
    for module in modules:
        optimizer = tt.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        losses = []
        for step in range(6):
            tt.manual_seed(step)
            loss = module(on(5, 8, seed=step)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        if last is not None:
            tt.testing.assert_close(losses, last)
        last = losses
    eager, compiled = modules
    # The derivative of the norm has fused sums.
    tt.testing.assert_close([*compiled.parameters()], [*eager.parameters()])
    tt.testing.assert_close([*compiled.buffers()], [*eager.buffers()])
    forward, backward = graphed(compiled)
    assert (forward.captures, backward.captures) == (1, 1)
    assert forward.is_replayed and backward.is_replayed


@pytest.mark.parametrize("in_place", [False, True])
def test_gradients_accumulate(in_place: bool) -> None:
    modules = pair()
    for module in modules:
        for step in range(8):
            tt.manual_seed(step)
            if step == 5:
                module.zero_grad(set_to_none=not in_place)
            module(on(5, 8, seed=step)).sum().backward()
    eager, compiled = modules
    close([p.grad for p in compiled.parameters()], [p.grad for p in eager.parameters()], 1e-5, 1e-6)
    assert graphed(compiled)[1].is_replayed


def test_two_forwards_before_their_backwards() -> None:
    modules = pair()
    for module in modules:
        for step in range(6):
            tt.manual_seed(step)
            losses = [module(on(5, 8, seed=10 * step + i)).square().sum() for i in range(3)]
            module.zero_grad()
            for loss in losses:
                loss.backward()
    eager, compiled = modules
    close([p.grad for p in compiled.parameters()], [p.grad for p in eager.parameters()], 1e-5, 1e-6)
    forward, backward = graphed(compiled)
    assert forward.captures == 3 and forward.is_replayed and backward.is_replayed


def test_an_input_that_is_written_to_before_backward_is_an_error() -> None:
    module = nn.Linear(4, 4).cuda()
    compiled = tt.compile(module, mode="reduce-overhead")
    for _ in range(4):
        x = on(3, 4)
        result = compiled(x)
        result.sum().backward()
    result = compiled(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    result = compiled(x)
    result.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_a_result_that_is_written_to_and_was_kept_for_backward_is_an_error() -> None:
    compiled = tt.compile(lambda x: x.exp(), mode="reduce-overhead")
    for call in range(5):
        result = compiled(on(3, 4, grad=True))
        if call % 2:
            with tt.no_grad():
                result.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()
        else:
            result.sum().backward()


def test_parameters_at_new_addresses() -> None:
    module = nn.Linear(4, 3).cuda()
    compiled = tt.compile(module, mode="reduce-overhead")
    with tt.no_grad():
        kept = []
        for call in range(ADDRESSES + 6):
            kept.append(module.weight)
            module.weight = nn.Parameter(on(3, 4, seed=call))
            same(compiled(on(2, 4, seed=call)), module(on(2, 4, seed=call)), f"call {call}")
        module.weight.data = on(3, 4, seed=99)
        same(compiled(on(2, 4)), module(on(2, 4)))
        module.weight.mul_(2)
        same(compiled(on(2, 4)), module(on(2, 4)))
    (program,) = graphed(compiled)
    assert program.is_replayed and program.captures == 1


@pytest.mark.parametrize("look", ["expanded", "gaps", "transposed", "offset", "misaligned"])
def test_arguments_of_any_layout(look: str) -> None:
    looks: dict[str, Callable[[int], tt.Tensor]] = {
        "expanded": lambda seed: on(1, 6, seed=seed).expand(4, 6),
        "gaps": lambda seed: on(4, 60, seed=seed)[:, ::10],
        "transposed": lambda seed: on(6, 4, seed=seed).t(),
        "offset": lambda seed: on(9, 6, seed=seed)[5:],
        "misaligned": lambda seed: on(25, seed=seed)[1:].view(4, 6),
    }
    function = lambda x: (x.exp().sum(1), x * 2, x[1:])  # noqa: E731
    compiled = tt.compile(function, fullgraph=True, mode="reduce-overhead")
    for call in range(4):
        same(compiled(looks[look](call)), function(looks[look](call)), f"call {call}")
    assert graphed(compiled)[0].is_replayed


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "cpu": (lambda x: x * HELD["scale"].sum(), "is on cpu"),
    "copies": (lambda x: (x * 2).cpu() + 1, "is on cpu"),
    "strides": (lambda x: tt.as_strided(x, (2,), (1,), 1) + 1, "reads a tensor's storage"),
    "nothing": (lambda x: x, "launches nothing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_cuda_graph_runs_as_in_the_default_mode(name: str) -> None:
    function, reason = REFUSED[name]
    compiled = tt.compile(function, fullgraph=True, mode="reduce-overhead")
    for call in range(4):
        same(compiled(on(4, seed=call)), function(on(4, seed=call)))
    assert reason in (graphed(compiled)[0].reason or "")
    found = tt.compiler.explain(compiled, on(4))
    assert reason in found.cuda_graphs[0] and "not captured" in str(found)


def test_a_capture_that_fails_runs_as_in_the_default_mode() -> None:
    @tt.library.custom_op("cuda_graphs_test::waits", mutates_args=())
    def waits(x: tt.Tensor) -> tt.Tensor:
        return x * x.sum().item()

    @waits.register_fake
    def _(x: tt.Tensor) -> tt.Tensor:
        return tt.empty_like(x)

    function = lambda x: waits(x + 1) * 2  # noqa: E731
    compiled = tt.compile(function, fullgraph=True, mode="reduce-overhead")
    for call in range(4):
        same(compiled(on(4, seed=call)), function(on(4, seed=call)))
    assert "cannot be captured" in (graphed(compiled)[0].reason or "")
    assert "cannot be captured" in tt.compiler.explain(compiled, on(4)).cuda_graphs[0]


def test_the_mode_on_the_cpu_is_the_default_one() -> None:
    compiled = tt.compile(PROGRAMS["chain"], mode="reduce-overhead")
    for call in range(3):
        args = drawn(3, 4, seed=call), drawn(3, 4)
        same(compiled(*args), PROGRAMS["chain"](*args))
    assert "on cpu" in tt.compiler.explain(compiled, *args).cuda_graphs[0]


def test_calls_on_another_stream_and_inside_a_capture() -> None:
    function = PROGRAMS["reduction"]
    compiled = tt.compile(function, mode="reduce-overhead")
    x, y = on(4, 3), on(4, 3, seed=1)
    for _ in range(3):
        compiled(x, y)
    side = tt.cuda.Stream()
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        found = compiled(x, y)
    side.synchronize()
    same(found, function(x, y))
    own = tt.cuda.CUDAGraph()
    with tt.cuda.graph(own):
        found = compiled(x, y)
    x.mul_(2)
    own.replay()
    same(found, function(x, y))


def test_calls_in_threads() -> None:
    function = PROGRAMS["chain"]
    compiled = tt.compile(function, mode="reduce-overhead")
    y = on(4, 3)
    for _ in range(3):
        compiled(y, y)
    found: dict[int, list[tt.Tensor]] = {}

    def work(number: int) -> None:
        found[number] = [compiled(x, y) for x in [on(4, 3, seed=10 * number + i) for i in range(5)]]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, results in found.items():
        same(results, [function(on(4, 3, seed=10 * number + i), y) for i in range(5)])


def test_a_mark_of_a_step_changes_nothing() -> None:
    compiled = tt.compile(PROGRAMS["chain"], mode="reduce-overhead")
    y = on(*LARGE)
    for call in range(4):
        tt.compiler.cudagraph_mark_step_begin()
        first = compiled(on(1, 1, seed=call), y)
        tt.compiler.cudagraph_mark_step_begin()
        second = compiled(on(1, 1, seed=call + 9), y)
        same([first, second], [PROGRAMS["chain"](on(1, 1, seed=s), y) for s in (call, call + 9)])


def test_modes_and_options_that_do_not_go_together() -> None:
    with pytest.raises(RuntimeError, match="both can't be specified"):
        tt.compile(lambda x: x, mode="reduce-overhead", options={"triton.cudagraphs": True})
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        tt.compile(lambda x: x, mode="fast")


def test_sizes_that_vary_are_captured_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triten.compiler.optimized.CAPTURED_SIZES", 2)
    function = PROGRAMS["chain"]
    compiled: Any = tt.compile(function, fullgraph=True, mode="reduce-overhead")
    for size in (3, 4, 5, 6, 4, 5, 6, 4, 5, 6, 3, 3):
        args = on(size, 4, seed=size), on(size, 4)
        same(compiled(*args), function(*args))
    assert compiled._optimized.count == 1
    assert [program.is_replayed for program in graphed(compiled)] == [True] * 3
