"""Comparison of a compiled function with the eager one: bitwise identical results, arguments and random
numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt
from triten.dispatch.layers.pytree import tree_flatten
from triten.tests.shared.comparison import as_array


def drawn(
    *shape: int, device: str = "cpu", dtype: Any = tt.float32, seed: int = 0, grad: bool = False
) -> tt.Tensor:
    """Return a tensor of normal random numbers; equal arguments give equal values."""
    numbers = np.random.default_rng([seed, *shape]).standard_normal(shape) * 2
    return tt.tensor(numbers.tolist(), dtype=tt.float64).to(device, dtype).requires_grad_(grad)


def same(found: Any, expected: Any, note: str = "") -> None:
    """Raise AssertionError unless two nests are alike and their tensors have equal specs and bits.

    One NaN is as good as another.
    """
    mine, shape = tree_flatten(found)
    theirs, other_shape = tree_flatten(expected)
    assert shape == other_shape, f"{note}: {shape} and {other_shape}"
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(b, tt.Tensor):
            _same_tensors(a, b, f"{note} leaf {i}".strip())
        else:
            assert type(a) is type(b) and (a == b or a != a), f"{note} leaf {i}: {a!r} and {b!r}"


def _same_tensors(found: Any, expected: tt.Tensor, note: str) -> None:
    looks = [
        (x.dtype, x.device, tuple(x.shape), x.stride(), x.requires_grad, x.is_inference())
        for x in (found, expected)
    ]
    assert looks[0] == looks[1], f"{note}: {looks[0]} and {looks[1]}"
    bits = [x.detach().cpu().numpy().tobytes() for x in (found, expected)]
    if bits[0] != bits[1]:
        np.testing.assert_array_equal(as_array(found), as_array(expected), err_msg=note)
        a, b = (np.signbit(as_array(x)) for x in (found, expected))
        assert (a == b)[~np.isnan(as_array(found))].all(), f"{note}: zeros of the other sign"


def graphs(compiled: Any) -> int:
    """Return the number of graphs of a compiled function or module."""
    optimized = vars(compiled).get("_compiled") or compiled._optimized
    return int(optimized.count)


def agree(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], calls: int = 2, fullgraph: bool = True
) -> Any:
    """Raise AssertionError unless a function compiled does what it does eagerly, call after call.

    Args:
        function: what is compiled.
        make: gives arguments, equal ones each time.
        calls: how often both are called. The first captures; all of them run the graph.
        fullgraph: whether a function that cannot be captured is an error.

    Returns:
        The compiled function.
    """
    compiled = tt.compile(function, fullgraph=fullgraph)
    for call in range(calls):
        given, own = make(), make()
        tt.manual_seed(call)
        expected = function(*given)
        after = tt.rand(1)
        tt.manual_seed(call)
        found = compiled(*own)
        same(found, expected, f"call {call}: result")
        same(own, given, f"call {call}: arguments")
        same(tt.rand(1), after, f"call {call}: the next random number")
    return compiled
