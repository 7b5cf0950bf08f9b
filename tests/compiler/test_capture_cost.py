"""The cost of a capture, counted in calls, grows linearly with the program."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.capture.recording import Recording, record
from triten.compiler.pipeline import run_passes
from triten.dispatch.layers.pytree import tree_flatten
from triten.tests.compiler.beside_eager import drawn

MAX_CALLS = 300
"""Functions that are called for each operator of a chain."""


def counted(function: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many functions a call calls, builtin functions included, and its result."""
    count = 0

    def note(frame: Any, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = function()
    finally:
        sys.setprofile(before)
    return count, result


def chain(length: int) -> Callable[[tt.Tensor], tt.Tensor]:
    def function(x: tt.Tensor) -> tt.Tensor:
        for _ in range(length):
            x = (x * 2 + 1).t()
        return x

    return function


def with_weights(length: int) -> Callable[[tt.Tensor], tt.Tensor]:
    weights = [drawn(3, grad=True, seed=i) for i in range(length)]

    def function(x: tt.Tensor) -> tt.Tensor:
        for each in weights:
            x = x * each
        return x

    return function


def stepped(length: int) -> Callable[[tt.Tensor], tt.Tensor]:
    weights = [drawn(3, seed=i) for i in range(length)]

    def function(x: tt.Tensor) -> tt.Tensor:
        tt._foreach_add_(weights, 1)
        return x + 1

    return function


def recorded(function: Callable[..., Any], x: tt.Tensor) -> Recording:
    leaves, spec = tree_flatten(((x,), {}))
    return record(function, leaves, spec)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("make", [chain, with_weights, stepped])
def test_it_grows_as_the_program_does(make: Callable[[int], Any], grad: bool) -> None:
    counts = []
    for length in (20, 20, 40, 80):
        function = make(length)
        count, recording = counted(lambda function=function: recorded(function, drawn(3, 3, grad=grad)))
        passes, _ = counted(lambda recording=recording: run_passes(recording.graph))
        counts.append((count, passes))
    for few, more, most in zip(*counts[1:], strict=True):
        assert most - more < 2.1 * (more - few)


def test_an_operator_costs_some_hundred_calls() -> None:
    recorded(chain(10), drawn(3, 3))
    few, more = (counted(lambda n=n: recorded(chain(n), drawn(3, 3)))[0] for n in (10, 60))
    assert (more - few) / (3 * 50) < MAX_CALLS
