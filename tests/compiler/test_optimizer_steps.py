"""Optimizer steps as graphs: parameters and states are eager's, and step counts cause no new graph."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

Made = Callable[..., tt.optim.Optimizer]

OPTIMIZERS: dict[str, Made] = {
    "SGD": lambda parameters, **o: tt.optim.SGD(parameters, 0.1, **o),
    "SGD with momentum": lambda parameters, **o: tt.optim.SGD(
        parameters, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, **o
    ),
    "Adam": lambda parameters, **o: tt.optim.Adam(parameters, 0.01, weight_decay=0.1, amsgrad=True, **o),
    "AdamW": lambda parameters, **o: tt.optim.AdamW(parameters, 0.01, **o),
}

WAYS: dict[str, dict[str, bool]] = {
    "as it likes": {},
    "foreach": {"foreach": True},
    "single": {"foreach": False},
    "fused": {"fused": True},
}

READS_ITS_COUNT = {("Adam", "single"), ("AdamW", "single")}
"""Steps whose arithmetic is Python's."""


def stepped(make: Made, device: str, compiles: bool, change: Callable[[Any], None]) -> tuple[Any, Any]:
    """Return parameters and states after five steps, and the compiled step; `change` edits the optimizer
    before the last.
    """
    parameters = [drawn(*shape, device=device, grad=True) for shape in ((2, 3), (3,))]
    optimizer = make(parameters)
    step: Any = tt.compile(optimizer.step) if compiles else optimizer.step
    for i in range(5):
        for parameter in parameters:
            parameter.grad = drawn(*parameter.shape, device=device, seed=i)
        if i == 4:
            change(optimizer)
        step()
    return ([p.detach() for p in parameters], [dict(optimizer.state[p]) for p in parameters]), step


@pytest.mark.parametrize(("name", "way"), list(itertools.product(OPTIMIZERS, WAYS)))
def test_steps_are_eager_s(name: str, way: str, device: str) -> None:
    def make(parameters: Any) -> tt.optim.Optimizer:
        return OPTIMIZERS[name](parameters, **WAYS[way])

    expected, _ = stepped(make, device, False, lambda optimizer: None)
    found, step = stepped(make, device, True, lambda optimizer: None)
    same(found, expected, f"{name} {way}")
    assert graphs(step) == ((name, way) not in READS_ITS_COUNT)


def test_a_rate_that_is_a_number_is_a_part_of_the_graph() -> None:
    def change(optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] *= 0.5

    expected, _ = stepped(OPTIMIZERS["AdamW"], "cpu", False, change)
    found, step = stepped(OPTIMIZERS["AdamW"], "cpu", True, change)
    same(found, expected)
    assert graphs(step) == 2


def test_a_rate_that_is_a_tensor_is_an_input(device: str) -> None:
    def make(parameters: Any) -> tt.optim.Optimizer:
        return tt.optim.AdamW(parameters, tt.tensor(0.01), fused=True)

    def change(optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"].mul_(0.5)

    expected, _ = stepped(make, device, False, change)
    found, step = stepped(make, device, True, change)
    same(found, expected)
    assert graphs(step) == 1
