"""Forward saves the fewest bytes for backward, and never a tensor that other code may write to."""

import itertools
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import triten as tt
from triten.compiler.capture.recording import record
from triten.compiler.host.replay import replay
from triten.compiler.max_flow import FlowNetwork
from triten.compiler.partition import LONGEST_CHAIN, bytes_of, may_run_twice, needed_for, roots_of
from triten.compiler.pipeline import kernel_for
from triten.compiler.schedule import Kernel, fused_schedule
from triten.compiler.training import SplitGraph, split
from triten.dispatch.layers.graph.graph import Node
from triten.dispatch.layers.pytree import tree_flatten
from triten.tests.compiler.beside_eager import drawn, same

F = tt.nn.functional


def parts_of(function: Callable[..., Any], *args: Any) -> SplitGraph:
    leaves, spec = tree_flatten((args, {}))
    return split(record(function, leaves, spec))


def kept(parts: SplitGraph) -> list[Node]:
    results = list(parts.forward.output_node.args[0])
    return results[len(results) - parts.num_saved :]


def kept_bytes(parts: SplitGraph) -> float:
    return sum(node.val.numel * node.val.itemsize for node in kept(parts))


def names(graph: Any) -> list[str]:
    return [getattr(node.target, "_opname", "getitem") for node in graph.find_nodes(op="call_function")]


@pytest.mark.parametrize("seed", range(20))
def test_maximum_flow_is_scipy_s_and_the_cut_carries_it(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 12)
    capacities = np.zeros((count, count), dtype=np.int32)
    for _ in range(draw.randint(1, 40)):
        start, end = draw.randrange(count), draw.randrange(count)
        if start != end:
            capacities[start, end] = draw.randint(0, 9)
    network = FlowNetwork(count)
    for start, end in zip(*np.nonzero(capacities), strict=True):
        network.add_edge(int(start), int(end), int(capacities[start, end]))
    flow = network.maximum_flow(0, count - 1)
    assert flow == maximum_flow(csr_array(capacities), 0, count - 1).flow_value
    behind = network.sink_side(count - 1)
    ahead = [v for v in range(count) if v not in behind]
    assert 0 in ahead and capacities[np.ix_(ahead, sorted(behind))].sum() == flow


def test_a_flow_without_bound_is_an_error() -> None:
    network = FlowNetwork(2)
    network.add_edge(0, 1, float("inf"))
    with pytest.raises(ValueError, match="finite"):
        network.maximum_flow(0, 1)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "an activation": lambda x, w: F.gelu(x @ w) @ w,
    "a branch": lambda x, w: (h := (x @ w).sin(), h.exp() * h.cos())[1],
    "a mask": lambda x, w: F.relu(x @ w).exp().sum(),
    "views": lambda x, w: (x @ w).t().reshape(2, 8).tanh().view(16).exp().sum(),
    "dtypes": lambda x, w: (x @ w).double().sin().float().exp(),
    "broadcasting": lambda x, w: ((x @ w).sum(0) * x).exp().sigmoid(),
    "two results": lambda x, w: ((x @ w).exp(), (x @ w).sin().exp().relu()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_other_choice_keeps_fewer_bytes(name: str) -> None:
    """Try all choices of saved values; a choice is valid if every value banned from recomputation is
    available.
    """
    x, w = drawn(4, 4, grad=True), drawn(4, 4, seed=1, grad=True)
    recording = record(PROGRAMS[name], *tree_flatten(((x, w), {})))
    parts = split(recording)
    graph = recording.graph
    inputs = graph.find_nodes(op="placeholder")
    own = inputs[: len(inputs) - len(recording.differentiable)]
    after = {n for n in graph.nodes if any(i not in own for i in needed_for([n]) if i.op == "placeholder")}
    gradients = [n for n in graph.output_node.args[0][recording.results :] if n is not None]
    wanted = {g for n in needed_for(gradients) if n in after for g in n.all_input_nodes if g not in after}
    before = [n for n in graph.nodes if n in needed_for(list(wanted))]
    roots = roots_of(before)
    candidates = list(dict.fromkeys(roots[n] for n in before if roots[n] not in own))
    assert len(candidates) < 15
    free = {n for n in own if n in needed_for(list(wanted))}
    best = float("inf")
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(candidates, count) for count in range(len(candidates) + 1)
    ):
        pending, seen = list(wanted), set(chosen) | free
        while pending:
            node = pending.pop()
            if node not in seen:
                if not may_run_twice(node):
                    break
                seen.add(node)
                pending += node.all_input_nodes
        else:
            best = min(best, sum(bytes_of(n, n) for n in chosen))
    of_name = {n.name: roots[n] for n in before}
    assert sum(bytes_of(root, root) for root in (of_name[n.name] for n in kept(parts))) == best


def test_an_activation_runs_again_right_before_it_is_read() -> None:
    model = tt.nn.Sequential(*[tt.nn.Sequential(tt.nn.Linear(8, 8), tt.nn.GELU()) for _ in range(3)])
    parts = parts_of(model, drawn(2, 8))
    assert names(parts.backward).count("gelu") == 2
    order = names(parts.backward)
    assert order.index("mm") < order.index("gelu")
    assert not any(n.target._opname == "gelu" for n in kept(parts) if hasattr(n.target, "_opname"))


def test_views_are_kept_as_what_they_view() -> None:
    parts = parts_of(
        lambda x, w: sum(each.exp().sum() for each in (x @ w).unbind(0)),
        drawn(3, 4, grad=True),
        drawn(4, 4, seed=1),
    )
    assert kept_bytes(parts) == 3 * 4 * 4


def test_random_numbers_and_products_are_not_made_twice() -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return (F.dropout(x @ w, 0.5).softmax(-1) @ w).cumsum(0).exp().sum()

    parts = parts_of(f, drawn(4, 4, grad=True), drawn(4, 4, seed=1))
    again = set(names(parts.backward))
    assert again.isdisjoint({"native_dropout", "bernoulli", "_softmax", "addmm", "bmm"})
    assert "mm" in again  # of gradients


def test_a_long_chain_keeps_some_of_its_values() -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        h = x @ w
        for _ in range(2 * LONGEST_CHAIN + 8):
            h = h.sin()
        return h

    parts = parts_of(f, drawn(2, 2, grad=True), drawn(2, 2, seed=1))
    assert parts.num_saved == 3
    assert names(parts.backward).count("sin") < 2 * LONGEST_CHAIN + 8


def test_masks_are_kept_in_the_place_of_what_they_come_from() -> None:
    parts = parts_of(
        lambda x, w, k: tt.where((x @ w) > k, (x + 1) @ w, 0.0),
        drawn(4, 4, grad=True),
        drawn(4, 4, seed=1),
        drawn(4, 4, seed=2),
    )
    assert kept_bytes(parts) == 16  # a byte for each element


CHANGES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "an argument that backward does not read": (lambda x, w: (x + w).sin(), lambda x, w, y: x.zero_()),
    "a result that backward does not read": (
        lambda x, w: (x + w).sin().view(4) + 0,
        lambda x, w, y: y.mul_(2),
    ),
    "an argument that backward reads": (lambda x, w: (x * w).sin(), lambda x, w, y: x.zero_()),
    "a result that backward reads": (lambda x, w: (x * w).exp().view(4), lambda x, w, y: y.detach().zero_()),
    "an argument that the function writes to": (lambda x, w: (x.add_(1), x * w)[1], lambda x, w, y: None),
    "one that it writes to after reading": (lambda x, w: (x * w, x.add_(1))[0], lambda x, w, y: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_writes_between_forward_and_backward(name: str) -> None:
    function, change = CHANGES[name]
    found: list[Any] = []
    for each in (function, tt.compile(function)):
        x, w = drawn(4), drawn(4, seed=1, grad=True)
        y = each(x, w)
        with tt.no_grad():
            change(x, w, y)
        try:
            y.sum().backward()
            found.append(w.grad)
        except RuntimeError as error:
            found.append(str(error).partition(",")[0][:60])
    same(found[1], found[0], name)


def test_values_are_freed_as_backward_goes() -> None:
    def f(*tensors: tt.Tensor) -> tuple[tt.Tensor, ...]:
        return tuple([(tensor + 1).exp().sum() for tensor in tensors])

    given = [drawn(4, seed=i) for i in range(3)]
    expected = f(*given)
    schedule = fused_schedule(tt.func.make_graph(f)(*given).graph)
    references = [weakref.ref(tensor) for tensor in given]
    alive: list[list[bool]] = []

    def watched(kernel: Kernel) -> Callable[..., tuple[Any, ...]]:
        run = kernel_for(kernel)

        def noted(*inputs: Any) -> tuple[Any, ...]:
            alive.append([reference() is not None for reference in references])
            return run(*inputs)

        return noted

    program = replay(schedule, watched, is_boxed=True)[0]
    same(program(given), expected)
    assert not given
    assert alive == [[True, True, True], [False, True, True], [False, False, True]]


@pytest.mark.parametrize("retain", [False, True])
def test_saved_tensors_can_be_cleared_unless_the_graph_is_retained(retain: bool) -> None:
    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            assert ctx.maybe_clear_saved_tensors() is not retain
            if retain:
                assert ctx.saved_tensors[0] is x
            else:
                with pytest.raises(RuntimeError, match="second time"):
                    _ = ctx.saved_tensors
            return grad * 2

    x = drawn(3, grad=True)
    y = Double.apply(x).sum()
    y.backward(retain_graph=retain)
    assert (x.grad == 2).all()
