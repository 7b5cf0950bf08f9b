"""How many kernels the steps of optimizers launch over a hundred parameters, and what is done to their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.runtime.cuda.standin.made_up_kernels import settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)
COUNT = 100


def parameters(dtypes: tuple[tt.dtype, ...] = (tt.float32,)) -> list[tt.Tensor]:
    """Return parameters of many sizes with gradients, which alternate between the dtypes."""
    made = []
    for number in range(COUNT):
        parameter = tt.ones(
            1 + number % 7, 5, device="cuda", dtype=dtypes[number % len(dtypes)], requires_grad=True
        )
        parameter.grad = tt.ones_like(parameter)
        made.append(parameter)
    return made


def gradients() -> list[Any]:
    return [parameter.grad for parameter in parameters()]


OPTIMIZERS: dict[str, tuple[Callable[[list[tt.Tensor]], tt.optim.Optimizer], int]] = {
    "AdamW": (lambda p: tt.optim.AdamW(p), 2),
    "AdamW of groups": (lambda p: tt.optim.AdamW([{"params": p[:50]}, {"params": p[50:], "lr": 0.1}]), 4),
    "AdamW with every option": (lambda p: tt.optim.AdamW(p, amsgrad=True, maximize=True, capturable=True), 2),
    "Adam": (lambda p: tt.optim.Adam(p), 2),
    "SGD": (lambda p: tt.optim.SGD(p), 1),
    "SGD with momentum": (lambda p: tt.optim.SGD(p, momentum=0.9, nesterov=True), 1),
    "Adadelta": (lambda p: tt.optim.Adadelta(p), 11),
    "Adagrad": (lambda p: tt.optim.Adagrad(p), 4),
    "Adamax": (lambda p: tt.optim.Adamax(p), 7),
    "ASGD": (lambda p: tt.optim.ASGD(p), 3),
    "NAdam": (lambda p: tt.optim.NAdam(p), 8),
    "RAdam": (lambda p: tt.optim.RAdam(p), 11),
    "RMSprop": (lambda p: tt.optim.RMSprop(p), 5),
}
"""Each with its launches: a count of steps that stands on the device is one more, and what has no kernel of its own has
one for each operation of its update."""
WARM = 12
"""Steps after which temporary tensors come back to the places that they had, and tables are moved no more."""


@WITHOUT_CODE
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_launches_for_all_parameters_together(standin, name):
    without_code()
    make, expected = OPTIMIZERS[name]
    optimizer = make(parameters())
    for _ in range(WARM):
        optimizer.step()
    calls = standin.during(optimizer.step)
    assert {call.name for call in calls} == {"cuLaunchKernel"}
    assert len(calls) == expected


@WITHOUT_CODE
def test_a_step_launches_for_each_dtype(standin):
    without_code()
    optimizer = tt.optim.AdamW(parameters((tt.float32, tt.bfloat16)))
    calls = settled(standin, optimizer.step)
    assert [call["function"] for call in calls] == ["multi_tensor_pointwise", "fused_adam", "fused_adam"]


@WITHOUT_CODE
def test_a_scaled_step_takes_its_count_back_in_one_launch(standin):
    without_code()
    optimizer = tt.optim.AdamW(parameters(), fused=True)
    optimizer.grad_scale, optimizer.found_inf = (tt.ones((), device="cuda") for _ in range(2))
    assert len(settled(standin, optimizer.step)) == 3


LISTS: dict[str, tuple[Callable[[list[Any]], object], int]] = {
    "add a number": (lambda g: tt._foreach_add_(g, 1.0), 1),
    "add a list": (lambda g: tt._foreach_add_(g, g, alpha=2), 1),
    "multiply by a tensor": (lambda g: tt._foreach_mul_(g, g[0].reshape(-1)[0]), 1),
    "new products": (lambda g: tt._foreach_mul(g, g), 1),
    "divide by products": (lambda g: tt._foreach_addcdiv_(g, g, g, value=-0.5), 1),
    "interpolate": (lambda g: tt._foreach_lerp_(g, g, 0.25), 1),
    "roots": (lambda g: tt._foreach_sqrt(g), 1),
    "larger ones": (lambda g: tt._foreach_maximum_(g, g), 1),
    "copy": (lambda g: tt._foreach_copy_(g, g), 1),
    "zero": (lambda g: tt._foreach_zero_(g), 1),
    "what has no kernel over lists": (lambda g: tt._foreach_lgamma_(g), COUNT),
    "a number for each": (lambda g: tt._foreach_mul_(g, list(range(COUNT))), COUNT),
}


@WITHOUT_CODE
@pytest.mark.parametrize("name", LISTS)
def test_operators_over_lists(standin, name):
    without_code()
    program, expected = LISTS[name]
    given = gradients()
    calls = settled(standin, lambda: program(given))
    assert {call.name for call in calls} == {"cuLaunchKernel"}
    assert len(calls) == expected


@WITHOUT_CODE
def test_single_steps_launch_for_each_parameter(standin):
    without_code()
    optimizer = tt.optim.RMSprop(parameters(), foreach=False)
    assert len(settled(standin, optimizer.step)) == 5 * COUNT


CLIPPING: dict[str, tuple[Callable[[list[tt.Tensor]], object], int]] = {
    "by the norm": (lambda p: tt.nn.utils.clip_grad_norm_(p, 1.0), 3),
    "by the largest element": (lambda p: tt.nn.utils.clip_grad_norm_(p, 1.0, float("inf")), 3),
    "by value": (lambda p: tt.nn.utils.clip_grad_value_(p, 1.0), 1),
    "the norm of all": (lambda p: tt.nn.utils.get_total_norm([q.grad for q in p]), 2),
    "the norm of each": (lambda p: tt._foreach_norm([q.grad for q in p]), 2),
    "zeros": (lambda p: tt.optim.SGD(p).zero_grad(set_to_none=False), 1),
}


@WITHOUT_CODE
@pytest.mark.parametrize("name", CLIPPING)
def test_what_is_done_to_gradients(standin, name):
    without_code()
    program, expected = CLIPPING[name]
    given = parameters()
    calls = settled(standin, lambda: program(given))
    assert {call.name for call in calls} == {"cuLaunchKernel"}
    assert len(calls) == expected


@WITHOUT_CODE
def test_norms_of_two_dtypes_take_a_launch_more(standin):
    without_code()
    given = parameters((tt.float32, tt.bfloat16))
    calls = settled(standin, lambda: tt.nn.utils.clip_grad_norm_(given, 1.0))
    assert [call["function"] for call in calls] == [
        *["multi_tensor_norm_parts"] * 2, "multi_tensor_total_norm", *["multi_tensor_pointwise"] * 2
    ]  # fmt: skip
