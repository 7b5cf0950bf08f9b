"""Averages of models: means, exponential ones, buffers, statistics, rates."""

import math

import pytest

import triten as tt

swa = tt.optim.swa_utils


def fill(model, value):
    for each in (*model.parameters(), *model.buffers()):
        each.detach().fill_(value)


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("kind", ["swa", "ema"])
def test_averages(kind, multi):
    model = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.BatchNorm1d(3))
    function = getattr(swa, f"get_{kind}_{'multi_' * multi}avg_fn")(*[0.75] * (kind == "ema"))
    averaged = swa.AveragedModel(model, **{"multi_avg_fn" if multi else "avg_fn": function})
    for value in (1.0, 2.0, 6.0):
        fill(model, value)
        averaged.update_parameters(model)
    expected = 3.0 if kind == "swa" else 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 6
    assert averaged.module[0].weight.tolist() == [[pytest.approx(expected)] * 2] * 3
    assert averaged.module[1].running_mean.tolist() == [6.0] * 3 and averaged.n_averaged.item() == 3
    assert averaged.module[0].weight is not model[0].weight


def test_buffers_may_be_averaged():
    model = tt.nn.BatchNorm1d(2)
    averaged = swa.AveragedModel(model, use_buffers=True)
    for value in (1.0, 5.0):
        fill(model, value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.tolist() == [3.0, 3.0]
    with pytest.raises(AssertionError, match="Only one"):
        swa.AveragedModel(model, avg_fn=swa.get_swa_avg_fn(), multi_avg_fn=swa.get_swa_multi_avg_fn())
    with pytest.raises(ValueError, match="Invalid decay value 2"):
        swa.get_ema_avg_fn(2)


def test_statistics_are_those_of_the_loader():
    model = tt.nn.Sequential(tt.nn.BatchNorm1d(1), tt.nn.Linear(1, 1)).eval()
    swa.update_bn([(tt.full((4, 1), 2.0), "label"), tt.full((4, 1), 4.0)], model)
    assert model[0].running_mean.tolist() == [3.0] and model[0].momentum == 0.1 and not model.training


@pytest.mark.parametrize("strategy", ["linear", "cos"])
def test_rates_go_to_a_constant(strategy):
    optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
    scheduler = swa.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy=strategy)
    for epoch in range(7):
        place = min(epoch, 4) / 4
        share = place if strategy == "linear" else (1 - math.cos(math.pi * place)) / 2
        assert scheduler.get_last_lr() == [pytest.approx(1.0 - 0.8 * share)]
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="'cos' or 'linear'"):
        swa.SWALR(optimizer, 0.2, anneal_strategy="step")
    with pytest.raises(ValueError, match="equal or greater than 0"):
        swa.SWALR(optimizer, 0.2, anneal_epochs=-1)
