"""The batch normalisations that say by their name whether statistics are updated, against `native_batch_norm`."""

from functools import partial

import pytest

import triten as tt
from triten.tests.shared import comparison

aten = tt.ops.aten


@pytest.fixture
def given(rng, device):
    shapes = [(3, 4, 5), (4,), (4,), (4,)]
    x, weight, bias, mean = [tt.from_numpy(rng.normal(0, 1, shape)).to(device) for shape in shapes]
    return x, weight, bias, mean, tt.from_numpy(rng.uniform(0.5, 2, 4)).to(device)


close = partial(comparison.close, atol=1e-12)


def test_training_updates(given):
    x, weight, bias, mean, var = given
    first = [mean.clone(), var.clone()]
    expected = tt.native_batch_norm(x, weight, bias, *first, True, 0.1, 1e-5)
    second = [mean.clone(), var.clone()]
    *results, reserve = aten._batch_norm_with_update(x, weight, bias, *second, 0.1, 1e-5)
    close(results + second, [*expected, *first])
    assert reserve.dtype is tt.uint8 and reserve.numel() == 0
    functional = aten._batch_norm_with_update_functional(x, weight, bias, mean, var, 0.1, 1e-5)
    close([*functional[:3], *functional[4:]], [*expected, *first])
    third = [mean.clone(), var.clone()]
    out = {n: tt.empty(0, dtype=tt.float64, device=x.device) for n in ("out", "save_mean", "save_invstd")}
    out["reserve"] = tt.empty(0, dtype=tt.uint8, device=x.device)
    written = aten._batch_norm_with_update.out(x, weight, bias, *third, 0.1, 1e-5, **out)
    close([*written[:3], *third], [*expected, *first])
    kept, out["reserve"] = [t.clone() for t in third], tt.empty(0, device="meta", dtype=tt.uint8)
    with pytest.raises(RuntimeError):
        aten._batch_norm_with_update.out(x, weight, bias, *third, 0.1, 1e-5, **out)
    close(third, kept)


def test_evaluation_does_not(given):
    x, weight, bias, mean, var = given
    kept = [mean.clone(), var.clone()]
    results = aten._batch_norm_no_update(x, weight, bias, mean, var, 0.1, 1e-5)
    close(results[:1], tt.native_batch_norm(x, weight, bias, mean, var, False, 0.1, 1e-5)[:1])
    close([mean, var], kept)
    assert [r.numel() for r in results[1:]] == [0, 0, 0]
    with pytest.raises(RuntimeError, match="running_var must be defined"):
        aten._batch_norm_no_update(x, weight, bias, mean, None, 0.1, 1e-5)


@pytest.mark.parametrize("update", [True, False])
def test_gradients(given, update):
    x, weight, bias, mean, var = given
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    call = aten._batch_norm_with_update if update else aten._batch_norm_no_update
    out, save_mean, save_var, reserve = call(*leaves, mean, var, 0.1, 1e-5)
    grad = tt.randn(3, 4, 5, dtype=tt.float64, device=x.device)
    out.backward(grad)
    kept = (save_mean.detach(), save_var.detach())
    arguments = (grad, x, weight, mean, var, *kept, update, 1e-5)
    found = aten.batch_norm_backward(*arguments, [True, True, True], reserve)
    close(found, [leaf.grad for leaf in leaves])
    assert aten.batch_norm_backward(*arguments, [True, False, False], reserve)[1:] == (None, None)


def test_writes_into_outputs_and_statistics_are_refused_by_functionalize(device):
    def program(x, mean, var, out, save_mean, save_invstd, reserve):
        given = {"out": out, "save_mean": save_mean, "save_invstd": save_invstd, "reserve": reserve}
        return aten._batch_norm_with_update.out(x, None, None, mean, var, 0.1, 0.1, **given)

    made = [tt.ones(3, 4, device=device), *[tt.zeros(4, device=device) for _ in range(5)]]
    reserve = tt.empty(0, dtype=tt.uint8, device=device)
    with pytest.raises(RuntimeError, match="has no functional form"):
        tt.func.functionalize(program)(*made, reserve)
