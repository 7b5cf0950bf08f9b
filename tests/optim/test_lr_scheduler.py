"""Rates of every scheduler, epoch by epoch: beside their definitions, from saved states, and beside PyTorch."""

import copy
import math
import warnings
from typing import Any

import pytest

import triten as tt

R = tt.optim.lr_scheduler


class Power:
    """A function with a state."""

    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


SCHEDULERS = {
    "LambdaLR": lambda R, o: R.LambdaLR(o, [Power(0.9), lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda R, o: R.MultiplicativeLR(o, lambda e: 0.5 + 0.5 / e),
    "StepLR": lambda R, o: R.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda R, o: R.MultiStepLR(o, [2, 2, 5], 0.5),
    "ConstantLR": lambda R, o: R.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda R, o: R.LinearLR(o, 0.2, 0.8, 6),
    "ExponentialLR": lambda R, o: R.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda R, o: R.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda R, o: R.CosineAnnealingLR(o, 4, 0.05),
    "CosineAnnealingWarmRestarts": lambda R, o: R.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda R, o: R.CyclicLR(o, 0.1, 1.0, 3, 4),
    "CyclicLR 2": lambda R, o: R.CyclicLR(o, [0.1, 0.2], [1.0, 2.0], 3, mode="triangular2"),
    "CyclicLR exp": lambda R, o: R.CyclicLR(
        o, 0.1, 1.0, 3, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "CyclicLR own": lambda R, o: R.CyclicLR(o, 0.1, 1.0, 3, scale_fn=Power(0.9), scale_mode="iterations"),
    "OneCycleLR": lambda R, o: R.OneCycleLR(o, [1.0, 2.0], total_steps=15),
    "OneCycleLR 3": lambda R, o: R.OneCycleLR(
        o, 1.0, epochs=5, steps_per_epoch=3, three_phase=True, anneal_strategy="linear", pct_start=0.25
    ),
    "SequentialLR": lambda R, o: R.SequentialLR(
        o, [R.ConstantLR(o, 0.1, 3), R.ExponentialLR(o, 0.9), R.StepLR(o, 2, 0.5)], [3, 8]
    ),
    "ChainedScheduler": lambda R, o: R.ChainedScheduler([R.ConstantLR(o, 0.1, 3), R.ExponentialLR(o, 0.9)]),
    "nested": lambda R, o: R.SequentialLR(
        o, [R.ChainedScheduler([R.LinearLR(o), R.ExponentialLR(o, 0.9)]), R.CosineAnnealingLR(o, 5)], [4]
    ),
    "ReduceLROnPlateau": lambda R, o: R.ReduceLROnPlateau(o, patience=1, factor=0.5, cooldown=2),
    "ReduceLROnPlateau max": lambda R, o: R.ReduceLROnPlateau(
        o, "max", patience=0, factor=0.5, threshold_mode="abs", min_lr=[0.1, 0.2]
    ),
}
DEFINITIONS = {
    "LambdaLR": lambda e: (0.9**e, 1 / (e + 1)),
    "MultiplicativeLR": lambda e: math.prod(0.5 + 0.5 / i for i in range(1, e + 1)),
    "StepLR": lambda e: 0.5 ** (e // 3),
    "MultiStepLR": lambda e: 1 if e < 2 else 0.25 if e < 5 else 0.125,
    "ConstantLR": lambda e: 0.25 if e < 4 else 1,
    "LinearLR": lambda e: 0.2 + 0.6 * min(e, 6) / 6,
    "ExponentialLR": lambda e: 0.8**e,
    "PolynomialLR": lambda e: (1 - min(e, 6) / 6) ** 2,
    "ChainedScheduler": lambda e: (0.1 if e < 3 else 1) * 0.9**e,
    "SequentialLR": lambda e: 0.1 if e < 3 else 0.9 ** (e - 3) if e < 8 else 0.5 ** ((e - 8) // 2),
}
"""What some schedulers multiply the first rates by."""


def prepared(module=tt, name="SGD", lr=(0.7, 0.3)):
    parameters = [module.ones(2, requires_grad=True), module.ones(3, requires_grad=True)]
    options = {"momentum": 0.9} if name == "SGD" else {}
    groups = [{"params": [p], "lr": rate} for p, rate in zip(parameters, lr, strict=True)]
    return getattr(module.optim, name)(groups, lr=0.1, **options)


def advance(scheduler, epoch):
    scheduler.optimizer.step()
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(math.sin(0.7 * epoch) + 2)
    else:
        scheduler.step()


def seen(scheduler):
    """Return learning rates and momenta."""
    groups = scheduler.optimizer.param_groups
    momenta = [group["betas"][0] if "betas" in group else group["momentum"] for group in groups]
    return [*(float(group["lr"]) for group in groups), *momenta, *map(float, scheduler.get_last_lr())]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_rates_are_the_definition(name):
    scheduler = SCHEDULERS[name](R, prepared())
    for epoch in range(12):
        expected = DEFINITIONS[name](epoch)
        first, second = expected if isinstance(expected, tuple) else (expected, expected)
        assert scheduler.get_last_lr() == pytest.approx([0.7 * first, 0.3 * second], abs=1e-12), epoch
        advance(scheduler, epoch)


def test_cosines_cycles_and_plateaus():
    def rates(make, lr=(1.0, 1.0), count=9):
        scheduler = make(prepared(lr=lr))
        found = []
        for epoch in range(count):
            found.append(scheduler.get_last_lr()[0])
            advance(scheduler, epoch)
        return pytest.approx(found, abs=1e-9)

    cosine = [0.2 + 0.8 * (1 + math.cos(math.pi * e / 4)) / 2 for e in range(9)]
    assert cosine == rates(lambda o: R.CosineAnnealingLR(o, 4, 0.2))
    assert [*cosine[:4], *cosine[:4], cosine[0]] == rates(
        lambda o: R.CosineAnnealingWarmRestarts(o, 4, 1, 0.2)
    )
    assert rates(lambda o: R.CyclicLR(o, 1.0, 3.0, 2)) == [1, 2, 3, 2, 1, 2, 3, 2, 1]
    assert rates(lambda o: R.CyclicLR(o, 1.0, 3.0, 1, mode="triangular2")) == [1, 3, 1, 2, 1, 1.5, 1, 1.25, 1]
    linear = {"anneal_strategy": "linear", "pct_start": 0.5, "div_factor": 3.0, "final_div_factor": 1.0}
    assert rates(
        lambda o: R.OneCycleLR(o, 3.0, total_steps=6 + 1, **{**linear, "pct_start": 3 / 7}), count=7
    ) == [1, 2, 3, 2.5, 2, 1.5, 1]
    scheduler = R.ReduceLROnPlateau(prepared(lr=(1.0, 1.0)), patience=1, factor=0.5, cooldown=1, min_lr=0.3)
    found = []
    for measured in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0):
        scheduler.step(tt.tensor(measured))
        found.append(scheduler.get_last_lr()[0])
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("tensors", [False, True])
def test_states_are_saved_and_loaded(name, tensors):
    def make():
        lr = [tt.tensor(r, dtype=tt.float64) for r in (0.7, 0.3)] if tensors else (0.7, 0.3)
        return SCHEDULERS[name](R, prepared(lr=lr))

    whole, other = make(), make()
    for epoch in range(5):
        advance(whole, epoch)
    other.load_state_dict(copy.deepcopy(whole.state_dict()))
    other.optimizer.load_state_dict(copy.deepcopy(whole.optimizer.state_dict()))
    for epoch in range(5, 12):
        assert seen(whole) == seen(other), epoch
        advance(whole, epoch)
        advance(other, epoch)


def test_an_epoch_may_be_named_and_training_resumed():
    optimizer = prepared()
    scheduler = R.StepLR(optimizer, 2, 0.5)
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(5)
    assert scheduler.get_last_lr() == [0.7 / 4, 0.3 / 4]
    assert R.ExponentialLR(optimizer, 0.5, last_epoch=5).last_epoch == 6
    with pytest.raises(KeyError, match="initial_lr"):
        R.ExponentialLR(prepared(), 0.5, last_epoch=5)


def test_warnings():
    scheduler = R.ExponentialLR(prepared(), 0.5)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
    scheduler = R.ExponentialLR(prepared(), 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advance(scheduler, 0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: R.StepLR(tt.ones(1), 2), TypeError, "is not an Optimizer"),
        (lambda o: R.LambdaLR(o, [len]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda o: R.MultiplicativeLR(o, 0.5), TypeError, "should be a function"),
        (lambda o: R.ConstantLR(o, 2.0), ValueError, "between 0 and 1"),
        (lambda o: R.LinearLR(o, 0.0), ValueError, "greater than 0"),
        (lambda o: R.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
        (lambda o: R.CyclicLR(o, [0.1], 1.0), ValueError, "base_lr must have the same length"),
        (lambda o: R.CyclicLR(o, 0.1, 1.0, mode="saw"), ValueError, "mode is invalid"),
        (lambda o: R.OneCycleLR(o, 1.0), ValueError, "either total_steps OR"),
        (
            lambda o: R.OneCycleLR(o, 1.0, total_steps=5, pct_start=2.0),
            ValueError,
            "between 0 and 1 pct_start",
        ),
        (lambda o: R.SequentialLR(o, [R.StepLR(o, 2)], [3]), ValueError, "one more than"),
        (lambda o: R.SequentialLR(o, [R.StepLR(prepared(), 2)], []), ValueError, "same optimizer"),
        (
            lambda o: R.ChainedScheduler([R.ReduceLROnPlateau(o)]),
            ValueError,
            "does not support `ReduceLROnPlateau`",
        ),
        (lambda o: R.ChainedScheduler([]), ValueError, "at least one scheduler"),
        (lambda o: R.ReduceLROnPlateau(o, "least"), ValueError, "mode least is unknown"),
        (lambda o: R.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make(prepared())


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_beside_pytorch(name, optimizer):
    torch = pytest.importorskip("torch")
    ours = SCHEDULERS[name](R, prepared(tt, optimizer))
    theirs = SCHEDULERS[name](torch.optim.lr_scheduler, prepared(torch, optimizer))
    for epoch in range(14):
        assert seen(ours) == pytest.approx(seen(theirs), rel=1e-12), epoch
        advance(ours, epoch)
        advance(theirs, epoch)
    assert set(ours.state_dict()) == set(theirs.state_dict())


def test_a_step_that_was_overridden_later_warns() -> None:
    optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
    scheduler = tt.optim.lr_scheduler.StepLR(optimizer, 1)
    original = optimizer.step
    optimizer.step = lambda *args: original(*args)  # type: ignore[method-assign, assignment]
    optimizer.step()
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_a_wrapper_of_an_optimizer_without_its_init_is_scheduled(recwarn: pytest.WarningsRecorder) -> None:
    class Wrapper(tt.optim.Optimizer):
        def __init__(self, optimizer: tt.optim.Optimizer) -> None:
            self.optimizer, self.param_groups = optimizer, optimizer.param_groups

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            self.optimizer.step(closure)

    optimizer = Wrapper(tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0))
    scheduler = tt.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.1 and not recwarn.list
    early = tt.optim.lr_scheduler.StepLR(Wrapper(tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)), 1)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        early.step()


def test_the_text_of_the_warning_about_epochs_is_public():
    from triten.optim.lr_scheduler import EPOCH_DEPRECATION_WARNING, StepLR

    optimizer = tt.optim.SGD([tt.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = StepLR(optimizer, 1)
    optimizer.step()
    with pytest.warns(UserWarning) as found:
        scheduler.step(2)
    assert EPOCH_DEPRECATION_WARNING in [str(each.message) for each in found]
