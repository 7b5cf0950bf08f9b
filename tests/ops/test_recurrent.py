"""Recurrent layers and cells by their definition in NumPy: directions, layers, projections, packed sequences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.recurrent import layers as kernels
from triten.dispatch.composite import recurrent
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.shared import comparison

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
Array = np.ndarray[Any, Any]
aten = tt.ops.aten


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step(mode: str, x: Array, state: Sequence[Array], w: Sequence[Any]) -> tuple[Array, ...]:
    """Compute one step by the equations of the layers' documentation."""
    w_ih, w_hh, b_ih, b_hh, w_hr = w
    return after_products(mode, x @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh, state, w_hr)


def after_products(
    mode: str, inputs: Array, hidden: Array, state: Sequence[Array], w_hr: Any = None
) -> tuple[Array, ...]:
    if mode == "lstm":
        i, f, g, o = np.split(inputs + hidden, 4, 1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if w_hr is None else h @ w_hr.T), c
    if mode == "gru":
        (r, z, n), (hr, hz, hn) = np.split(inputs, 3, 1), np.split(hidden, 3, 1)
        z, n = sigmoid(z + hz), np.tanh(n + sigmoid(r + hr) * hn)
        return ((1 - z) * n + z * state[0],)
    return (np.tanh(inputs + hidden) if mode == "rnn_tanh" else np.maximum(inputs + hidden, 0),)


def layer(
    mode: str, x: list[Array], states: list[tuple[Array, ...]], weights: list[Any], directions: int
) -> tuple[list[Array], list[tuple[Array, ...]]]:
    """Run all layers over one sequence, whose steps are (1, I); return each step's outputs and the last states."""
    ends = []
    for at in range(0, len(weights), directions):
        outputs = []
        for direction in range(directions):
            state, made = states[at + direction], []
            for one in reversed(x) if direction else x:
                state = step(mode, one, state, weights[at + direction])
                made.append(state[0])
            outputs.append(made[::-1] if direction else made)
            ends.append(state)
        x = [np.concatenate(parts, 1) for parts in zip(*outputs, strict=True)]
    return x, ends


class Problem:
    """Random operands of a layer, and what is to come out, sequence by sequence."""

    def __init__(
        self,
        rng: np.random.Generator,
        mode: str,
        lengths: Sequence[int],
        layers: int = 1,
        bidirectional: bool = False,
        bias: bool = True,
        projection: int = 0,
        width: int = 3,
        hidden: int = 4,
    ) -> None:
        self.mode, self.lengths = mode, lengths
        self.options = (bias, layers, 0.0, False, bidirectional)
        directions, rows = 1 + bidirectional, GATES[mode] * hidden
        out = projection or hidden
        self.params: list[Array] = []
        weights = []
        for at in range(layers * directions):
            sizes = (width if at < directions else out * directions, out)
            w = [rng.standard_normal((rows, n)) for n in sizes]
            b = [rng.standard_normal(rows) for _ in range(2)] if bias else []
            r = [rng.standard_normal((projection, hidden))] if projection else []
            self.params += [*w, *b, *r]
            weights.append((*w, *(b or (0.0, 0.0)), r[0] if r else None))
        count = len(lengths)
        self.states = [rng.standard_normal((layers * directions, count, out))]
        if mode == "lstm":
            self.states.append(rng.standard_normal((layers * directions, count, hidden)))
        self.sequences = [rng.standard_normal((n, width)) for n in lengths]
        self.outputs, ends = [], []
        for n, sequence in enumerate(self.sequences):
            first = [tuple(s[k, n : n + 1] for s in self.states) for k in range(layers * directions)]
            made, end = layer(mode, list(sequence[:, None]), first, weights, directions)
            self.outputs.append(np.concatenate(made))
            ends.append(end)
        self.ends = [
            np.stack([np.concatenate([end[k][part] for end in ends]) for k in range(layers * directions)])
            for part in range(len(self.states))
        ]

    def run(self, device: str, batch_first: bool = False, packed: bool = False) -> tuple[Array, list[Array]]:
        def on(x: Array) -> Any:
            return tt.tensor(x, device=device)

        function = getattr(tt, self.mode)
        hx: Any = [on(s) for s in self.states]
        hx = hx if self.mode == "lstm" else hx[0]
        params = [on(p) for p in self.params]
        if packed:
            sizes = [sum(n > t for n in self.lengths) for t in range(max(self.lengths))]
            rows = [s[t] for t in range(max(self.lengths)) for s in self.sequences if len(s) > t]
            out, *states = function(on(np.stack(rows)), tt.tensor(sizes), hx, params, *self.options)
        else:
            x = np.stack(self.sequences, 0 if batch_first else 1)
            out, *states = function(on(x), hx, params, *self.options, batch_first)
        return out.cpu().numpy(), [s.cpu().numpy() for s in states]


close = partial(comparison.close, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", GATES)
def test_whole_sequences(rng: np.random.Generator, mode: str) -> None:
    for layers, bidirectional, bias, first in itertools.product((1, 2), *((False, True),) * 3):
        problem = Problem(rng, mode, (5, 5, 5), layers, bidirectional, bias)
        out, ends = problem.run("cpu", batch_first=first)
        close(out, np.stack(problem.outputs, 0 if first else 1))
        for got, expected in zip(ends, problem.ends, strict=True):
            close(got, expected)


@pytest.mark.parametrize("mode", GATES)
def test_packed_sequences(rng: np.random.Generator, mode: str) -> None:
    for lengths, bidirectional in itertools.product(((4, 4, 2, 1), (3,), (1, 1)), (False, True)):
        problem = Problem(rng, mode, lengths, 2, bidirectional)
        out, ends = problem.run("cpu", packed=True)
        expected = [o[t] for t in range(max(lengths)) for o in problem.outputs if len(o) > t]
        close(out, np.stack(expected))
        for got, end in zip(ends, problem.ends, strict=True):
            close(got, end)


def test_projected_states(rng: np.random.Generator) -> None:
    for bias, packed in itertools.product((False, True), repeat=2):
        problem = Problem(rng, "lstm", (3, 3), 2, True, bias, projection=2)
        out, ends = problem.run("cpu", packed=packed)
        close(out.reshape(3, 2, 4), np.stack(problem.outputs, 1))
        for got, expected in zip(ends, problem.ends, strict=True):
            close(got, expected)


@pytest.mark.parametrize("mode", GATES)
def test_on_cuda(rng: np.random.Generator, mode: str) -> None:
    for packed in (False, True):
        problem = Problem(rng, mode, (2, 2) if not packed else (3, 1), 1, True)
        out, ends = problem.run("cuda", packed=packed)
        if not packed:
            close(out, np.stack(problem.outputs, 1))
        for got, expected in zip(ends, problem.ends, strict=True):
            close(got, expected)


@pytest.mark.parametrize("mode", GATES)
def test_a_cell_is_a_layer_of_one_step(rng: np.random.Generator, device: str, mode: str) -> None:
    problem = Problem(rng, mode, (1, 1, 1))
    x = tt.tensor(np.concatenate(problem.sequences), device=device)
    state = [tt.tensor(s[0], device=device) for s in problem.states]
    params = [tt.tensor(p, device=device) for p in problem.params]
    made = getattr(tt, f"{mode}_cell")(x, state if mode == "lstm" else state[0], *params)
    for got, expected in zip(made if mode == "lstm" else [made], problem.ends, strict=True):
        close(got.cpu().numpy(), expected[0])


def leaves(rng: np.random.Generator, device: str, *shapes: tuple[int, ...], dtype: Any = None) -> list[Any]:
    made = [tt.tensor(rng.standard_normal(s), device=device, dtype=dtype or tt.float64) for s in shapes]
    return [x.requires_grad_() for x in made]


STEPS = {
    "_thnn_fused_lstm_cell": (4, 2),
    "_thnn_fused_gru_cell": (3, 1),
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_gradients_of_a_step_are_those_of_its_differentiable_form(
    rng: np.random.Generator, device: str, name: str, biased: bool
) -> None:
    """Compare the gradients from the step's workspace with those of its differentiable form."""
    gates, count = STEPS[name]
    operands = leaves(
        rng, device, (5, gates * 3), (5, gates * 3), (5, 3), *[(gates * 3,)] * (2 if biased else 0)
    )
    outputs = getattr(aten, name).default(*operands)[:count]
    change = [x.detach() for x in leaves(rng, device, *[(5, 3)] * count)]
    fused = tt.autograd.grad(outputs, operands, change, retain_graph=True)
    made = tt.autograd.grad(outputs, operands, change, create_graph=True)
    for a, b in zip(fused, made, strict=True):
        close(a.cpu().numpy(), b.detach().cpu().numpy())
    for k in range(count):
        one = tt.autograd.grad(outputs[k], operands, change[k], retain_graph=True, allow_unused=True)
        two = tt.autograd.grad(outputs[k], operands, change[k], create_graph=True, allow_unused=True)
        for a, b in zip(one, two, strict=True):
            close(a.cpu().numpy(), b.detach().cpu().numpy())


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16])
@pytest.mark.parametrize("name", STEPS)
def test_narrow_steps_are_rounded_once(
    rng: np.random.Generator, device: str, name: str, dtype: tt.dtype
) -> None:
    gates, count = STEPS[name]
    operands = leaves(rng, device, (3, gates * 35), (3, gates * 35), (3, 35), dtype=dtype)
    wide = [x.detach().cpu().double().requires_grad_() for x in operands]
    got, expected = (getattr(aten, name).default(*x)[:count] for x in (operands, wide))
    for a, b in zip(got, expected, strict=True):
        close_to(a, b, dtype)
    change = [x.detach() for x in leaves(rng, device, *[(3, 35)] * count, dtype=dtype)]
    got = tt.autograd.grad(got, operands, change)
    expected = tt.autograd.grad(expected, wide, [x.cpu().double() for x in change])
    for a, b in zip(got, expected, strict=True):
        close_to(a, b, dtype, 8)


def close_to(got: Any, expected: Any, dtype: tt.dtype, units: float = 2) -> None:
    eps = tt.finfo(dtype).eps
    np.testing.assert_allclose(
        got.detach().cpu().double().numpy(), expected.detach().numpy(), rtol=units * eps, atol=units * eps
    )


@pytest.mark.parametrize("name", STEPS)
def test_steps_take_any_layout_and_size(rng: np.random.Generator, device: str, name: str) -> None:
    gates = STEPS[name][0]
    run = getattr(aten, name).default
    for rows, hidden in ((0, 3), (1, 1), (3, 0), (2, 17)):
        x, h, state = (
            tt.tensor(rng.standard_normal(s)) for s in ((rows, gates * hidden),) * 2 + ((rows, hidden),)
        )
        expected = run(x, h, state)
        turned = [t.t().contiguous().t().to(device) for t in (x, h, state)]
        spread = tt.zeros(rows, 2, gates * hidden, dtype=tt.float64, device=device)
        spread[:, 1] = x.to(device)
        for operands in (turned, [spread[:, 1], h.to(device), state.to(device)]):
            for a, b in zip(run(*operands), expected, strict=True):
                close(a.cpu().numpy(), b.numpy())


@pytest.mark.parametrize("name", STEPS)
def test_steps_where_gates_are_no_numbers(device: str, name: str) -> None:
    gates, count = STEPS[name]
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0]
    for at, value in itertools.product(range(gates), values):
        x = np.zeros((1, gates))
        x[0, at] = value
        zero, one = np.zeros((1, gates)), np.ones((1, 1))
        got = getattr(aten, name).default(*(tt.tensor(v, device=device) for v in (x, zero, one)))[:count]
        with np.errstate(all="ignore"):
            expected = after_products("lstm" if count == 2 else "gru", x, zero, (one, one))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b, rtol=1e-12)


def test_dropout_is_between_layers_alone(device: str) -> None:
    x, h = tt.ones(2, 3, 4, device=device), tt.zeros(2, 3, 4, device=device)
    params = [tt.eye(4, device=device), tt.zeros(4, 4, device=device)] * 2
    dropped, _ = tt.rnn_relu(x, h, params, False, 2, 1.0, True, False, False)
    kept, _ = tt.rnn_relu(x, h, params, False, 2, 1.0, False, False, False)
    assert dropped.abs().sum().item() == 0 and kept.sum().item() == 24
    last, _ = tt.rnn_relu(x, h[:1], params[:2], False, 1, 1.0, True, False, False)
    assert last.sum().item() == 24
    tt.manual_seed(3)
    got = tt.rnn_relu(x, h, params, False, 2, 0.5, True, False, False)[0].cpu()
    tt.manual_seed(3)
    expected = tt.rnn_relu(x.cpu(), h.cpu(), [p.cpu() for p in params], False, 2, 0.5, True, False, False)[0]
    assert tt.equal(got, expected) and 0 < got.sum().item() < 48


REFUSED = {
    "input has inconsistent input_size: got 3 expected 4": lambda z: tt.gru_cell(
        z(2, 3), z(2, 5), z(15, 4), z(15, 5)
    ),
    "Input batch size 2 doesn't match hidden0 batch size 3": lambda z: tt.gru_cell(
        z(2, 4), z(3, 5), z(15, 4), z(15, 5)
    ),
    "hidden1 has inconsistent hidden_size: got 6, expected 5": lambda z: tt.lstm_cell(
        z(2, 4), [z(2, 5), z(2, 6)], z(20, 4), z(20, 5)
    ),
    "lstm_cell expects two hidden states": lambda z: tt.lstm_cell(z(2, 4), [z(2, 5)], z(20, 4), z(20, 5)),
    "lstm expects two hidden states": lambda z: tt.lstm(
        z(2, 3, 4), [z(1, 3, 5)], [z(20, 4), z(20, 5)], False, 1, 0.0, False, False, False
    ),
    "got an incorrect number of RNN parameters": lambda z: tt.gru(
        z(2, 3, 4), z(1, 3, 5), [z(15, 4)], False, 1, 0.0, False, False, False
    ),
    "Expected more hidden states in stacked_rnn": lambda z: tt.gru(
        z(2, 3, 4), z(1, 3, 5), [z(15, 4), z(15, 5)] * 2, False, 2, 0.0, False, False, False
    ),
    "Expected more weights in stacked_rnn": lambda z: tt.gru(
        z(2, 3, 4), z(2, 3, 5), [z(15, 4), z(15, 5)], False, 2, 0.0, False, False, False
    ),
    "Odd number of params or hiddens given to a bidirectional RNN": lambda z: tt.gru(
        z(2, 3, 4), z(1, 3, 5), [z(15, 4), z(15, 5)], False, 1, 0.0, False, True, False
    ),
    "Expected sequence length to be larger than 0 in RNN": lambda z: tt.gru(
        z(0, 3, 4), z(1, 3, 5), [z(15, 4), z(15, 5)], False, 1, 0.0, False, False, False
    ),
    "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1 'input_gates'": lambda z: (
        aten._thnn_fused_lstm_cell(z(8), z(8), z(2, 1))
    ),
    "to have same size as tensor for argument #2 'hidden_gates'": lambda z: aten._thnn_fused_lstm_cell(
        z(2, 8), z(2, 4), z(2, 2)
    ),
    "Expected tensor for argument #5 'cx' to have 4 elements; but it actually has 6": lambda z: (
        aten._thnn_fused_lstm_cell(z(2, 8), z(2, 8), z(2, 3))
    ),
    "Expected tensor for argument #3 'input_bias' to have 6 elements": lambda z: aten._thnn_fused_gru_cell(
        z(2, 6), z(2, 6), z(2, 2), z(5), z(5)
    ),
    "expected scalar type Float but found Double": lambda z: aten._thnn_fused_gru_cell(
        z(2, 6), z(2, 6).double(), z(2, 2)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    with pytest.raises(RuntimeError) as error:
        REFUSED[message](lambda *sizes: tt.zeros(*sizes))
    assert message in str(error.value)


def test_integers_are_refused() -> None:
    x, h = tt.ones(2, 8, dtype=tt.int64), tt.ones(2, 2, dtype=tt.int64)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        aten._thnn_fused_lstm_cell(x, x, h)


def test_autocast_on_the_cpu_keeps_a_wide_state() -> None:
    """Check that autocast on the CPU, without a fused step, runs the matmuls in bfloat16 and keeps a float32 state."""
    cell = [tt.ones(8, 3), tt.ones(8, 2)]
    with tt.autocast("cpu", tt.bfloat16):
        hidden, state = tt.lstm_cell(tt.ones(1, 3), [tt.zeros(1, 2), tt.ones(1, 2)], *cell)
    assert (hidden.dtype, state.dtype) == (tt.float32, tt.float32)


LAYERS = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def whole(
    mode: str, reverse: bool, by_steps: bool, operands: Sequence[Any], sizes: tuple[int, ...] | None = None
) -> list[Any]:
    """Return the output and the last states, of the layer's operator or of its steps' operators.

    With `sizes`, the input is packed and has that many rows at each step.
    """
    x, w_ih, w_hh, b_ih, b_hh, *state = operands
    kind = getattr(recurrent, mode.removeprefix("rnn_").upper())
    weights = recurrent.Weights(w_ih, w_hh, b_ih, b_hh)
    if not by_steps:
        output, end = recurrent._direction(kind, recurrent.Steps(x, sizes), tuple(state), weights, reverse)
        return [output, *end]
    share = recurrent.Steps(kind.share(x, weights), sizes)
    steps, end = recurrent._by_steps(kind, share, tuple(state), weights, reverse)
    return [share.made_of(steps).data, *end]


@pytest.mark.parametrize("sizes", [None, (3, 3, 3, 2, 1, 1)], ids=["padded", "packed"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", LAYERS)
def test_a_layer_of_the_cpu_is_one_operator_with_the_values_and_gradients_of_its_steps(
    rng: np.random.Generator,
    mode: str,
    reverse: bool,
    sizes: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare padded sequences, and packed ones, of which each run of equally many rows is one operator."""
    gates = GATES[mode]
    state = [(3, 4)] * (2 if mode == "lstm" else 1)
    steps = (6, 3) if sizes is None else (sum(sizes),)
    shapes = ((*steps, 5), (gates * 4, 5), (gates * 4, 4), (gates * 4,), (gates * 4,), *state)
    operands = leaves(rng, "cpu", *shapes)
    monkeypatch.setattr(kernels, "TOGETHER", 2 * gates * 12)
    Dispatcher.singleton().forget_all()
    one, many = (whole(mode, reverse, by_steps, operands, sizes) for by_steps in (False, True))
    assert "_fused_rnn_layer" in str(tt.explain(whole, mode, reverse, False, operands, sizes))
    for a, b in zip(one, many, strict=True):
        close(a.detach().numpy(), b.detach().numpy())
    change = [x.detach() for x in leaves(rng, "cpu", (*steps, 4), *state)]
    for k in (slice(None), slice(0, 1), slice(1, 2), slice(len(one) - 1, None)):
        first, second = (
            tt.autograd.grad(made[k], operands, change[k], retain_graph=True, allow_unused=True)
            for made in (one, many)
        )
        for a, b in zip(first, second, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                close(a.numpy(), b.numpy())
    Dispatcher.singleton().forget_all()


@pytest.mark.parametrize("mode", LAYERS)
def test_a_layer_without_gradients_keeps_one_step(rng: np.random.Generator, mode: str) -> None:
    x = leaves(rng, "cpu", (7, 2, 3 * GATES[mode]), (2, 3), (2, 3), (3 * GATES[mode], 3))
    given = (x[0], x[1], x[2] if mode == "lstm" else None, x[3], None, LAYERS.index(mode))
    kept, least = (aten._fused_rnn_layer(*given, True, train) for train in (True, False))
    for a, b in zip(kept[:3], least[:3], strict=True):
        assert a.equal(b)
    assert least[3].shape[0] == 1
    with pytest.raises(RuntimeError, match="expected train=True"):
        least[0].sum().backward()


@pytest.mark.parametrize("mode", LAYERS)
def test_layers_under_vmap_and_with_tangents(rng: np.random.Generator, mode: str) -> None:
    gates = GATES[mode]
    state = [(2, 4)] * (2 if mode == "lstm" else 1)
    shapes = ((5, 2, 3), (gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,), *state)
    x, *rest = [t.detach() for t in leaves(rng, "cpu", *shapes)]

    def run(x: Any) -> Any:
        return whole(mode, False, False, [x, *rest])[0]

    mapped = tt.vmap(run)(tt.stack([x, 2 * x]))
    close(mapped[1].numpy(), run(2 * x).numpy())
    step = 1e-6
    _, tangent = tt.func.jvp(run, (x,), (tt.ones_like(x),))
    np.testing.assert_allclose(
        tangent.numpy(), ((run(x + step) - run(x - step)) / (2 * step)).numpy(), rtol=1e-6, atol=1e-7
    )


LAYER_REFUSALS = {
    "expected mode to be one of": lambda z: aten._fused_rnn_layer(
        z(2, 3, 4), z(3, 4), None, z(4, 4), None, 7
    ),
    "expected weight_hh of shape": lambda z: aten._fused_rnn_layer(
        z(2, 3, 4), z(3, 4), None, z(4, 5), None, 1
    ),
    "expected cx with mode 2 alone": lambda z: aten._fused_rnn_layer(
        z(2, 3, 16), z(3, 4), None, z(16, 4), None, 2
    ),
    "expected bias_hh with mode 3 alone": lambda z: aten._fused_rnn_layer(
        z(2, 3, 4), z(3, 4), None, z(4, 4), z(4), 1
    ),
    "expected input_gates of shape": lambda z: aten._fused_rnn_layer(
        z(2, 3, 5), z(3, 4), None, z(4, 4), None, 1
    ),
}


@pytest.mark.parametrize("message", LAYER_REFUSALS)
def test_a_layer_refuses_what_does_not_fit(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        LAYER_REFUSALS[message](tt.zeros)


def test_a_layer_on_meta(rng: np.random.Generator) -> None:
    x = tt.empty(5, 2, 16, device="meta")
    state = tt.empty(2, 4, device="meta")
    made = aten._fused_rnn_layer(x, state, state, tt.empty(16, 4, device="meta"), None, 2)
    assert [tuple(t.shape) for t in made] == [(5, 2, 4), (2, 4), (2, 4), (5, 48)]
