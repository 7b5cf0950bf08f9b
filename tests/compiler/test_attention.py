"""Attention written out in a program runs as the fused attention operator and agrees with eager."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import triten as tt
from triten.compiler.attention_pattern import attentions
from triten.compiler.capture.recording import record
from triten.compiler.element_order import elements_of, seen
from triten.dispatch.layers.pytree import tree_flatten
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import drawn

F = tt.nn.functional
SIZES = (2, 3, 20, 36, 16)
Function = Callable[..., Any]


def inputs(device: str, dtype: Any = tt.float32, grad: bool = False) -> list[tt.Tensor]:
    """Return query, key and value in (batch, position, head) order, with a mask that hides all keys from one
    query.
    """
    batch, heads, queries, keys, width = SIZES
    made = [
        drawn(batch, n, heads, width, device=device, dtype=dtype, seed=i, grad=grad)
        for i, n in enumerate((queries, keys, keys))
    ]
    hidden = drawn(queries, keys, device=device) > 1
    hidden[3] = True
    return [*[t.transpose(1, 2) for t in made], hidden]


def causal(q: tt.Tensor, k: tt.Tensor) -> tt.Tensor:
    return tt.ones(q.shape[2], k.shape[2], dtype=tt.bool, device=q.device).triu(1)


def flattened(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, hidden: tt.Tensor) -> tt.Tensor:
    q, k, v = (t.reshape(-1, t.shape[2], t.shape[3]) for t in (q, k, v))
    return tt.bmm((tt.bmm(q, k.transpose(1, 2)) / 4).softmax(-1), v)


def matrices(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, hidden: tt.Tensor) -> tt.Tensor:
    q, k, v = (t.flatten(0, 2) for t in (q, k, v))
    return (q @ k.t() / 4).softmax(1) @ v


FUSED: dict[str, Function] = {
    "a scale": lambda q, k, v, hidden: (q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ v,
    "no scale": lambda q, k, v, hidden: ((q * 0.3) @ k.mT).softmax(-1) @ v,
    "bools": lambda q, k, v, hidden: (q @ k.mT / 3).masked_fill(hidden, -math.inf).softmax(-1) @ v,
    "a scale after bools": lambda q, k, v, hidden: (q @ k.mT).masked_fill(hidden, -math.inf).div(3).softmax(-1) @ v,
    "numbers": lambda q, k, v, hidden: (
        q @ k.mT / 3 + tt.where(hidden, -math.inf, 0.0).to(q.dtype)
    ).softmax(-1) @ v,
    "numbers first": lambda q, k, v, hidden: (hidden.to(q.dtype) + q @ k.mT / 3).softmax(-1) @ v,
    "a causal mask": lambda q, k, v, hidden: (q @ k.mT / 3).masked_fill(causal(q, k), -math.inf).softmax(-1) @ v,
    "einsum": lambda q, k, v, hidden: tt.einsum(
        "bhls,bhsd->bhld", (tt.einsum("bhld,bhsd->bhls", q, k) / 3).softmax(-1), v
    ),
    "a float32 softmax": lambda q, k, v, hidden: (q @ k.mT / 3).float().softmax(-1).to(q.dtype) @ v,
    "heads joined": lambda q, k, v, hidden: ((q @ k.mT / 3).softmax(-1) @ v).transpose(1, 2).flatten(2) * 2,
    "batches and heads as one": flattened,
    "matrices": matrices,
}  # fmt: skip

LEFT: dict[str, Function] = {
    "weights are read": lambda q, k, v, hidden: (lambda p: (p @ v, p.sum(-1)))((q @ k.mT / 3).softmax(-1)),
    "scores are read": lambda q, k, v, hidden: (lambda s: (s.softmax(-1) @ v, s.amax(-1)))(q @ k.mT / 3),
    "weights are a result": lambda q, k, v, hidden: (lambda p: (p @ v, p))((q @ k.mT / 3).softmax(-1)),
    "two products": lambda q, k, v, hidden: (lambda p: p @ v + p @ v.exp())((q @ k.mT / 3).softmax(-1)),
    "a softmax of queries": lambda q, k, v, hidden: (q @ k.mT / 3).softmax(-2) @ v,
    "two masks": lambda q, k, v, hidden: (
        (q @ k.mT).masked_fill(hidden, -math.inf) + hidden.to(q.dtype)
    ).softmax(-1) @ v,
    "a finite fill": lambda q, k, v, hidden: (q @ k.mT).masked_fill(hidden, -1e4).softmax(-1) @ v,
    "numbers, scaled": lambda q, k, v, hidden: ((q @ k.mT + hidden.to(q.dtype)) * 3).softmax(-1) @ v,
    "minus infinity, turned": lambda q, k, v, hidden: (
        -2 * (q @ k.mT).masked_fill(hidden, -math.inf)
    ).softmax(-1) @ v,
    "weights of keys": lambda q, k, v, hidden: (q @ k.mT / 3).softmax(-1).mT @ q,
    "the square of weights": lambda q, k, v, hidden: (lambda p: p @ p.mT)((q @ k.mT / 3).softmax(-1)),
}  # fmt: skip


def is_fused(function: Function, given: Sequence[Any]) -> bool:
    """Return True if every graph of a call has the fused attention operator, False if none has."""
    schedules = tt.compiler.explain(function, *given).schedules
    found = ["_attention" in str(schedule) for schedule in schedules]
    assert len(set(found)) == 1
    return found[0]


def with_gradients(function: Function, given: Sequence[tt.Tensor]) -> list[tt.Tensor]:
    """Return the results, and the gradients of the tensors that require them; each element has another
    output gradient.
    """
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in given]
    results = [t for t in tree_flatten(function(*leaves))[0] if isinstance(t, tt.Tensor)]
    if not results[0].requires_grad:
        return results
    weights = [tt.arange(r.numel(), device=r.device).cos().to(r.dtype).view(r.shape) for r in results]
    tt.autograd.backward(results, weights)
    return [*results, *[t.grad for t in leaves if t.grad is not None]]


def near(found: Sequence[tt.Tensor], expected: Sequence[tt.Tensor]) -> None:
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        tt.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("name", FUSED)
def test_attention_by_hand_is_one_operator(name: str, device: str) -> None:
    function = FUSED[name]
    given = inputs(device, grad=True)
    assert is_fused(function, given)
    compiled = tt.compile(function, fullgraph=True)
    near(with_gradients(compiled, given), with_gradients(function, given))
    with tt.no_grad():
        near(with_gradients(compiled, given), with_gradients(function, given))


@pytest.mark.parametrize("name", LEFT)
def test_other_programs_stay_as_they_are(name: str) -> None:
    given = inputs("cpu", grad=True)
    assert not is_fused(LEFT[name], given)
    near(with_gradients(tt.compile(LEFT[name]), given), with_gradients(LEFT[name], given))


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64])
@pytest.mark.parametrize("name", ["bools", "a float32 softmax"])
def test_dtypes(name: str, dtype: Any) -> None:
    given = inputs("cpu", dtype, grad=True)
    rounds = dtype is tt.float64 and name == "a float32 softmax"
    assert is_fused(FUSED[name], given) is not rounds
    exact = with_gradients(FUSED[name], [t.double() if t.dtype is dtype else t for t in given])
    errors = []
    for run in (FUSED[name], tt.compile(FUSED[name])):
        found = with_gradients(run, given)
        assert all(t.dtype is dtype for t in found)
        errors.append([(a - b).nan_to_num(0).abs().max().item() for a, b in zip(found, exact, strict=True)])
    least = 1e-12 if dtype is tt.float64 else 0.0
    assert all(mine <= max(1.1 * theirs, least) for theirs, mine in zip(*errors, strict=True)), errors


@pytest.mark.parametrize("wanted", ["q", "k", "v", "qk", "qv", "kv"])
def test_gradients_of_some(wanted: str, device: str) -> None:
    q, k, v, hidden = inputs(device)
    for name, t in zip("qkv", (q, k, v), strict=True):
        t.requires_grad_(name in wanted)
    for function in (FUSED["bools"], FUSED["a causal mask"]):
        assert is_fused(function, (q, k, v, hidden))
        near(
            with_gradients(tt.compile(function), (q, k, v, hidden)),
            with_gradients(function, (q, k, v, hidden)),
        )


BROADCAST: dict[str, tuple[Function, bool]] = {
    "one head of keys": (lambda q, k, v: (q @ k[:, :1].mT / 4).softmax(-1) @ v[:, :1], True),
    "queries are keys": (lambda q, k, v: (k @ k.mT / 4).softmax(-1) @ v, True),
    "all are one": (lambda q, k, v: (k @ k.mT / 4).softmax(-1) @ k, True),
    "padding": (
        lambda q, k, v: (q @ k.mT / 4).masked_fill((v[..., 0] > 1)[:, :1, None], -math.inf).softmax(-1) @ v,
        True,
    ),
    "hidden queries": (
        lambda q, k, v: (q @ k.mT / 4).masked_fill((q[:1, :1, :, :1] > 1), -math.inf).softmax(-1) @ v,
        True,
    ),
    "an infinite scale": (lambda q, k, v: (q @ k.mT * math.inf).softmax(-1) @ v, False),
    "nothing": (lambda q, k, v: (q[:0] @ k[:0].mT / 4).softmax(-1) @ v[:0], False),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_operands_that_broadcast_or_are_the_same(name: str) -> None:
    function, fuses = BROADCAST[name]
    given = inputs("cpu", grad=True)[:3]
    assert is_fused(function, given) is fuses
    near(with_gradients(tt.compile(function), given), with_gradients(function, given))


def test_a_causal_mask_is_not_read() -> None:
    found = tt.compiler.explain(FUSED["a causal mask"], *inputs("cpu"))
    assert "attn_mask" not in str(found.schedules[0]) and "0.0, True" in str(found.schedules[0])
    found = tt.compiler.explain(FUSED["bools"], *inputs("cpu"))
    assert "attn_mask" in str(found.schedules[0])


def test_a_query_that_sees_nothing_is_nan() -> None:
    compiled = tt.compile(FUSED["bools"])
    q, k, v, hidden = inputs("cpu", grad=True)
    result, *gradients = with_gradients(compiled, (q, k, v, hidden))
    assert result[:, :, 3].isnan().all() and not result[:, :, 4:].isnan().any()
    assert gradients[2].isnan().all() and not gradients[0].isnan().any()

    def literal(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
        hidden = tt.ones(q.shape[2], k.shape[2], dtype=tt.bool).tril(-18)
        return (q @ k.mT / 3).masked_fill(hidden, -math.inf).softmax(-1) @ v

    assert "eq_all" not in str(tt.compiler.explain(literal, q, k, v).schedules[0])
    near(with_gradients(tt.compile(literal), (q, k, v)), with_gradients(literal, (q, k, v)))


def test_projections_and_attention_copy_nothing() -> None:
    class Block(tt.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = tt.nn.Linear(48, 144), tt.nn.Linear(48, 48)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            batch, length, width = x.shape
            q, k, v = (
                t.view(batch, length, 3, 16).transpose(1, 2) for t in self.inner(x).split(width, dim=2)
            )
            made = FUSED["a causal mask"](q, k, v, None)
            return self.outer(made.transpose(1, 2).contiguous().view(batch, length, width))

    block, x = Block(), drawn(2, 64, 48)
    found = tt.compiler.explain(block, x)
    assert all("aten.clone" not in str(schedule) for schedule in found.schedules)
    for given in (block, tt.compile(block)):
        given(x).square().sum().backward()
        grads = [p.grad for p in block.parameters()]
        block.zero_grad()
        if given is block:
            expected = grads
    near(grads, expected)
    assert found.peak_bytes < found.eager_peak_bytes


def test_a_result_may_be_written_to(device: str) -> None:
    function, given = FUSED["a scale"], inputs(device, grad=True)
    compiled = tt.compile(function)
    near(
        with_gradients(lambda *own: compiled(*own).mul_(2), given),
        with_gradients(lambda *own: function(*own).mul_(2), given),
    )


def test_it_is_differentiated_twice() -> None:
    function, found = FUSED["a causal mask"], []
    for run in (function, tt.compile(function)):
        q, k, v, hidden = (
            t.detach().requires_grad_(t.dtype is tt.float64) for t in inputs("cpu", tt.float64)
        )
        first = tt.autograd.grad(run(q, k, v, hidden).sin().sum(), (q, k, v), create_graph=True)
        found.append(tt.autograd.grad(sum(g.square().sum() for g in first), (q, k, v)))
    for mine, theirs in zip(*found, strict=True):
        tt.testing.assert_close(mine, theirs)


def test_weights_that_are_dropped_are_those_that_eager_calls_drop() -> None:
    def dropping(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
        before = F.dropout(q, 0.5)
        return F.dropout((before @ k.mT / 3).softmax(-1), 0.25) @ v

    q, k, v, _ = inputs("cuda", grad=True)
    found, after = [], []
    for run in (dropping, tt.compile(dropping)):
        tt.manual_seed(3)
        found.append(with_gradients(run, (q, k, v)))
        after.append(tt.rand(4, device="cuda"))
    near(found[1], found[0])
    assert tt.equal(*after)
    assert is_fused(dropping, (q, k, v))
    assert "native_dropout(%softmax" not in str(tt.compiler.explain(dropping, q, k, v).schedules[0])
    odd = k[:, :, :35], v[:, :, :35]  # rows of no whole counters
    assert not is_fused(dropping, (q, *odd))


def test_launches() -> None:
    given = [t.contiguous() for t in inputs("cuda")]
    compiled = tt.compile(FUSED["a causal mask"])
    compiled(*given)
    before = driver().launches
    compiled(*given)
    assert driver().launches == before + 1


def test_few_scores_stay() -> None:
    q = drawn(1, 1, 4, 8)
    assert not is_fused(FUSED["a scale"], (q, q, q, q))


def test_one_query_stays_on_the_cpu(device: str) -> None:
    q, k, v, hidden = inputs(device)
    q = q[:, :, :1].contiguous()
    k, v = (t.repeat(1, 1, 8, 1) for t in (k, v))
    assert is_fused(FUSED["a scale"], (q, k, v, hidden)) is (device == "cuda")
    near([tt.compile(FUSED["a scale"])(q, k, v, hidden)], [FUSED["a scale"](q, k, v, hidden)])


def test_attentions_are_found_in_order() -> None:
    def twice(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, hidden: tt.Tensor) -> tt.Tensor:
        return FUSED["bools"](FUSED["a scale"](q, k, v, hidden), k, v, hidden)

    given = inputs("cpu")
    leaves, spec = tree_flatten((tuple(given), {}))
    found = attentions(record(twice, leaves, spec).graph)
    assert [(each.scores.is_filled, each.lead, each.sizes) for each in found] == [
        (False, (2, 3), (20, 36, 16, 16)),
        (True, (2, 3), (20, 36, 16, 16)),
    ]
    near(with_gradients(tt.compile(twice), given), with_gradients(twice, given))


def test_elements_are_followed_through_views_and_copies() -> None:
    traced = tt.func.make_graph(lambda x: x.transpose(0, 1).contiguous().view(4, 3, 2).transpose(1, 2))(
        tt.ones(6, 4)
    )
    last = traced.graph.output_node.all_input_nodes[0]
    found = elements_of(last)
    assert (found.root.name, found.sizes, found.strides) == ("x", (4, 2, 3), (1, 4, 8))
    assert found.transposed().joined() is None
    assert seen(last, last.val).joined(1) == seen(last, last.val)
