"""`Tensor.data` in a compiled function: reads see the tensor, writes reach it, and its version does not
change.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.nn import Module
from triten.tests.compiler.beside_eager import drawn, graphs, same

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "data": lambda t, x: t.data.mul_(2),
    "a part of data": lambda t, x: t.data[1:].mul_(x.detach()[1:]),
    "data of a part": lambda t, x: t[1:].data.mul_(2),
    "data, then detached": lambda t, x: (t.data.mul_(2), t.detach().add_(1)),
    "detached": lambda t, x: t.detach().mul_(2),
    "twice": lambda t, x: (t.data.mul_(2), t.data.add_(x.detach())),
    "nothing": lambda t, x: t.data * 2,
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_done_and_counted_as_eagerly(name: str, is_held: bool, grad: bool) -> None:
    def states(compiles: bool) -> Any:
        held, found = drawn(3, grad=grad, seed=1), []

        def function(x: tt.Tensor) -> Any:
            WRITES[name](held if is_held else x, x)
            return x.detach() * 3 + held.data

        call: Any = tt.compile(function, fullgraph=True) if compiles else function
        x = drawn(3, grad=grad)
        for _ in range(3):
            result = call(x)
            found.append((result.tolist(), held.tolist(), x.tolist(), held._version, x._version))
        assert not compiles or graphs(call) == 1
        return found

    assert states(True) == states(False)


class Clamped(Module):
    """Layer that clamps its weight, and counts its calls."""

    calls: tt.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = tt.nn.Linear(3, 3)
        self.register_buffer("calls", tt.zeros(()))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        """Apply the layer to a tensor of shape (*, 3)."""
        self.linear.weight.data.clamp_(-0.1, 0.1)
        self.calls.data.add_(1)
        result: tt.Tensor = self.linear(x) * self.calls
        return result


def test_a_module_writes_to_its_parameters() -> None:
    module, twin = [(tt.manual_seed(0), Clamped())[1] for _ in range(2)]
    compiled = tt.compile(twin)
    for _ in range(3):
        results = module(drawn(2, 3)), compiled(drawn(2, 3))
        same(results[1], results[0])
        for each in results:
            each.sum().backward()
        for mine, other in zip(twin.parameters(), module.parameters(), strict=True):
            same((mine, mine.grad), (other, other.grad))
            assert mine._version == other._version
        with tt.no_grad():
            for each in (*twin.parameters(), *module.parameters()):
                each.add_(1)


GIVEN: dict[str, Callable[[Any], Any]] = {
    "data": lambda t: t.data,
    "data and a part of it": lambda t: (lambda d: (d, d[1:], t.data))(t.data),
    "a part of data": lambda t: t.data[1:],
    "detached": lambda t: (t.detach(), t.data, t.detach()[1:]),
}


@pytest.mark.parametrize("of", ["argument", "held", "made"])
@pytest.mark.parametrize("name", GIVEN)
def test_results_count_their_writes_as_eagerly(name: str, of: str) -> None:
    def versions(compiles: bool) -> Any:
        held = drawn(3, grad=True, seed=1)

        def function(x: tt.Tensor) -> Any:
            t = {"argument": x, "held": held, "made": x.detach() * 2}[of]
            given = GIVEN[name](t)
            return t, *(given if isinstance(given, tuple) else (given,))

        call = tt.compile(function) if compiles else function
        found = []
        for _ in range(2):
            whole, *given = call(drawn(3, grad=True))
            for each in given:
                before = [other._version for other in (whole, *given)]
                each.mul_(2)
                counts = [other._version for other in (whole, *given)]
                found.append(([b - a for a, b in zip(before, counts, strict=True)], whole.tolist()))
        return found

    assert versions(True) == versions(False)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "read": lambda array, x: tt.from_numpy(array) * x,
    "written": lambda array, x: tt.from_numpy(array).add_(1),
    "a part is written": lambda array, x: tt.as_tensor(array)[1:].add_(x[1:]),
    "given": lambda array, x: (tt.from_numpy(array), x * 2),
    "a part is given": lambda array, x: (tt.from_numpy(array)[1:], x * 2),
}


@pytest.mark.parametrize("name", USES)
def test_a_tensor_over_an_array_shares_its_memory(name: str) -> None:
    def states(compiles: bool) -> Any:
        array, found = np.ones(3, np.float32), []

        def function(x: tt.Tensor) -> Any:
            return USES[name](array, x)

        call = tt.compile(function) if compiles else function
        for number in range(3):
            given = call(drawn(3))
            results = given if isinstance(given, tuple) else (given,)
            found += [each.tolist() for each in results] + [array.tolist()]
            array[1] = number
            found += [each.tolist() for each in results[1:]]
        return found

    assert states(True) == states(False)
