"""Optimizers of other people: what PyTorch's base leaves to them."""

import pytest

import triten as tt
from triten.optim.optimizer import Optimizer, _use_grad_for_differentiable, required


class Plain(Optimizer):
    """Calls its closure and writes to ``data``, under the gradient mode that it finds."""

    def __init__(self, params, lr=required):
        super().__init__(params, {"lr": lr})
        self.recorded = []

    def step(self, closure=None):
        self.recorded.append(tt.is_grad_enabled())
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad.data, alpha=-group["lr"])
        return loss


class Marked(Plain):
    @_use_grad_for_differentiable
    def step(self, closure=None):
        self.recorded.append(tt.is_grad_enabled())


def test_a_step_may_compute_gradients() -> None:
    w = tt.tensor([2.0], requires_grad=True)
    optimizer = Plain([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert w.item() == 0.0 and optimizer.recorded == [True]
    with tt.no_grad():
        Marked([w], lr=0.5).step()
        optimizer.step()
    assert optimizer.recorded == [True, False]


def test_a_step_that_is_marked_records_nothing_but_where_it_is_differentiable() -> None:
    w = tt.tensor([2.0], requires_grad=True)
    marked = Marked([w], lr=0.5)
    marked.step()
    marked.defaults["differentiable"] = True
    marked.step()
    assert marked.recorded == [False, True]


def test_a_required_option_is_asked_of_every_group() -> None:
    w = tt.tensor([2.0], requires_grad=True)
    message = "parameter group didn't specify a value of required optimization parameter lr"
    with pytest.raises(ValueError, match=message):
        Plain([w])
    assert Plain([{"params": [w], "lr": 0.1}]).param_groups[0]["lr"] == 0.1
    assert repr(required) == "<required parameter>"


def test_the_former_name_of_the_base_of_schedulers() -> None:
    from triten.optim.lr_scheduler import LRScheduler, StepLR, _LRScheduler

    assert issubclass(_LRScheduler, LRScheduler) and not issubclass(StepLR, _LRScheduler)
