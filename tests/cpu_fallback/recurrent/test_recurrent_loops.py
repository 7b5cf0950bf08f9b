"""Recurrent layers of float32 by compiled loops against the same layers in float64, which NumPy computes."""

import itertools
import math

import pytest

import triten as tt
from triten.cpu_fallback.recurrent import compiled, many_steps
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured.meta.recurrent import GATES, GRU, LSTM, RELU, TANH
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
MODES = (LSTM, GRU, TANH, RELU)


def operands(mode: int, steps: int, rows: int, width: int, has_bias: bool) -> list[tt.Tensor | None]:
    """Return the operands of `_fused_rnn_layer` with values that saturate some gates."""
    tt.manual_seed(mode + steps)
    gates = GATES[mode] * width
    made = [
        4 * tt.randn(steps, rows, gates),
        tt.randn(rows, width),
        tt.randn(rows, width),
        tt.randn(gates, width) / width**0.5,
    ]
    bias = tt.randn(gates) if has_bias and mode == GRU else None
    return [made[0], made[1], made[2] if mode == LSTM else None, made[3], bias]


def results(
    mode: int, given: list[tt.Tensor | None], reverse: bool, train: bool = True, outputs: bool = True
) -> list[tt.Tensor]:
    """Return the results of a layer and the gradients of its operands."""
    leaves = [None if x is None else x.detach().requires_grad_(train) for x in given]
    output, hy, cy, _ = tt.ops.aten._fused_rnn_layer(*leaves, mode, reverse, train)
    made = [output, hy, *([cy] if mode == LSTM else [])]
    if not train:
        return made
    total = (hy * hy).sum() + (cy.sum() if mode == LSTM else 0)
    if outputs:
        total = total + (output * output.detach().cos()).sum()
    total.backward()
    return [*[x.detach() for x in made], *[x.grad for x in leaves if x is not None]]


def close(found: list[tt.Tensor], wanted: list[tt.Tensor]) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is tt.float32 and b.dtype is tt.float64
        tt.testing.assert_close(a.double(), b, rtol=2e-4, atol=2e-4 * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients_against_float64(mode: int, reverse: bool) -> None:
    sizes = ((60, 16, 40), (40, 13, 96), (8, 300, 17))
    for (steps, rows, width), outputs in itertools.product(sizes, (True, False)):
        given = operands(mode, steps, rows, width, not reverse)
        assert compiled.is_worth(mode, given[0]._spec.np_dtype, steps, rows * GATES[mode] * width)
        wide = [None if x is None else x.double() for x in given]
        close(results(mode, given, reverse, outputs=outputs), results(mode, wide, reverse, outputs=outputs))


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_without_gradients_has_the_same_values(mode: int) -> None:
    for steps in (60, 61):
        given = operands(mode, steps, 16, 48, True)
        trained, evaluated = results(mode, given, False), results(mode, given, False, train=False)
        for a, b in zip(trained, evaluated, strict=False):
            assert tt.equal(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_operands_may_have_any_strides(mode: int) -> None:
    given = operands(mode, 60, 16, 40, True)
    turned = [
        given[0].transpose(0, 1).contiguous().transpose(0, 1),
        *[None if x is None else x.t().contiguous().t() if x.ndim == 2 else x for x in given[1:]],
    ]
    every_second = [tt.stack([given[0], given[0]], -1)[..., 0], *given[1:]]
    wanted = results(mode, given, True)
    for other in (turned, every_second):
        for a, b in zip(results(mode, other, True), wanted, strict=True):
            tt.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_results_are_independent_of_threads(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = operands(mode, 30, 20, 64, True)
    monkeypatch.setattr(compiled, "SHARED_FROM", 1)
    monkeypatch.setattr(compiled, "WAKING_FROM", 1)
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            Dispatcher.singleton().forget_all()
            made = [*results(mode, given, False), *results(mode, given, True, train=False)]
            # The weight's gradient is a matmul of BLAS, which blocks its terms by threads.
            found.append([each for each in made if each.shape != given[3].shape])
    finally:
        tt.set_num_threads(before)
        Dispatcher.singleton().forget_all()
    assert all(tt.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_has_the_same_values_in_any_batch(mode: int) -> None:
    given = operands(mode, 40, 13, 96, True)
    few = [
        each if each is None or each is given[3] or each is given[4] else each[..., :9, :] for each in given
    ]
    for a, b in zip(
        results(mode, given, False, train=False), results(mode, few, False, train=False), strict=True
    ):
        tt.testing.assert_close(a[..., :9, :], b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_many_steps_are_one_call(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    run = many_steps.ManySteps.run
    monkeypatch.setattr(
        many_steps.ManySteps,
        "run",
        lambda self, steps, *args: (counts.append(steps), run(self, steps, *args)),
    )
    results(mode, operands(mode, 40, 13, 96, True), False)
    assert counts == [39, 38]


@pytest.mark.parametrize("mode", MODES)
def test_special_values_go_through_gates(mode: int) -> None:
    given = operands(mode, 60, 16, 40, False)
    given[0][:, 0, :], given[0][:, 1, :] = math.inf, -math.inf
    given[0][3, 2, 0] = math.nan
    output = results(mode, given, False, train=False)[0]
    wide = [None if x is None else x.double() for x in given]
    wanted = results(mode, wide, False, train=False)[0]
    tt.testing.assert_close(output.double(), wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert output[4:, 2].isnan().any() and not output[:, 3:].isnan().any()
